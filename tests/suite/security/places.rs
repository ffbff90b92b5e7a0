//! The directories somebody else was in first.

use crate::oci::{Node, stderr, whole};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// Its name, how it comes about, and what is said of it.
type Case<'a> = (&'a str, &'a dyn Fn(&Node), &'a str);

const SMALL: &str = r#"{"linux":{"resources":{"cpu":{"shares":2}}}}"#;

/// What counts on being pinned is not let through unpinned, and what does not is not held up.
#[test]
fn a_store_that_somebody_else_made_is_not_used_and_said() {
    let cases: [Case; 4] = [
        ("writable", &|node| made(node, 0o777), "mode 0777"),
        (
            "owned",
            &|node| {
                made(node, 0o700);
                chown(node.path("store"), Some(1000), None).unwrap();
            },
            "uid 1000",
        ),
        (
            "link",
            &|node| {
                fs::create_dir(node.path("theirs")).unwrap();
                symlink(node.path("theirs"), node.path("store")).unwrap();
            },
            "not a directory",
        ),
        ("file", &|node| fs::write(node.path("store"), "").unwrap(), "not a directory"),
    ];
    for (name, make, said) in cases {
        if name == "owned" && !nix::unistd::geteuid().is_root() {
            continue;
        }
        let node = Node::new("");
        make(&node);
        node.bundle("whole", &whole(1));
        node.bundle("small", SMALL);
        let output = node.create("whole");
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(said), "{name}: {}", stderr(&output));
        assert!(node.create("small").status.success(), "{name}");
        if name == "link" {
            assert_eq!(
                fs::read_dir(node.path("theirs")).unwrap().count(),
                0,
                "nothing is made where it leads"
            );
        }
    }
}

fn made(node: &Node, mode: u32) {
    fs::create_dir(node.path("store")).unwrap();
    fs::set_permissions(node.path("store"), fs::Permissions::from_mode(mode)).unwrap();
}
