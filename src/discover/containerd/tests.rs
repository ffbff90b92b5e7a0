use super::*;
use std::fs;

const MAIN: &str = "etc/containerd/config.toml";

fn read(files: &[(&str, &str)], whole_tables: bool) -> Containerd {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Containerd::read(&Root::gathered(dir.path()).unwrap(), None, |_| whole_tables)
}

fn hugetlb(config: &Containerd) -> Option<(bool, String)> {
    let said = config.truth(CRI, &["disable_hugetlb_controller"])?;
    Some((said.value, said.place.to_string()))
}

#[test]
fn both_versions_of_the_table_are_one() {
    let old = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  disable_hugetlb_controller = false\n";
    let new = "version = 3\r\n[plugins.'io.containerd.cri.v1.runtime']\r\n\r\ndisable_hugetlb_controller = false\r\n";
    assert_eq!(hugetlb(&read(&[(MAIN, old)], false)), Some((false, format!("/{MAIN}:3"))));
    assert_eq!(hugetlb(&read(&[(MAIN, new)], false)), Some((false, format!("/{MAIN}:4"))));
    let misplaced = new.replace("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri");
    assert_eq!(hugetlb(&read(&[(MAIN, &misplaced)], false)), None, "version 3 has it elsewhere");
    assert!(!read(&[], false).is_there);
}

#[test]
fn imports_come_later_and_replace() {
    let nri = "[plugins.\"io.containerd.nri.v1.nri\"]\n";
    let main = format!(
        "version = 3\nimports = [\"conf.d/*.toml\", '/etc/more.toml']\n{nri}disable = true\nsocket_path = \"/a\"\n"
    );
    let one = format!("version = 3\n{nri}disable = false\n");
    let files = [
        (MAIN, main.as_str()),
        ("etc/containerd/conf.d/10-a.toml", one.as_str()),
        ("etc/containerd/conf.d/20-b.tomlx", "nonsense"),
        ("etc/more.toml", "disabled_plugins = [\"x\"]\n"),
    ];
    let new = read(&files, false);
    assert!(new.unread.is_empty(), "{:?}", new.unread);
    assert_eq!(new.truth(NRI, &["disable"]).unwrap().place.to_string(), "/etc/containerd/conf.d/10-a.toml:3");
    assert_eq!(new.text(NRI, &["socket_path"]).unwrap().value, "/a");
    assert_eq!(new.list(&["disabled_plugins"]).unwrap().value, ["x"]);
    let old = read(&files, true);
    assert!(old.text(NRI, &["socket_path"]).is_none(), "before 2.0 the whole table is replaced");
}

#[test]
fn what_cannot_be_followed_is_told_and_ends() {
    let circle = [
        (MAIN, "imports = [\"./config.toml\", \"b.toml\"]\n"),
        ("etc/containerd/b.toml", "imports = ['config.toml']"),
    ];
    assert!(read(&circle, false).unread.is_empty());
    let absent = read(&[(MAIN, "imports = [\"/etc/none.toml\"]\n")], false);
    assert!(
        absent.unread[0]
            .to_string()
            .ends_with("/etc/none.toml is not there: expected the file that another one imports")
    );
    let bad = read(&[(MAIN, "version = 2\n[plugins\n")], false);
    assert!(bad.unread[0].to_string().contains("config.toml:2: found \"[plugins\""), "{}", bad.unread[0]);
}

#[test]
fn runtimes_are_found_with_their_options() {
    let text = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n  BinaryName = '/usr/bin/nvidia-container-runtime'\n  SystemdCgroup = true\n";
    let config = read(&[(MAIN, text)], false);
    let all: Vec<_> = config.runtimes().map(|(handler, key, _)| (handler, key)).collect();
    assert_eq!(all, [("nvidia", "BinaryName"), ("nvidia", "SystemdCgroup")]);
}

#[test]
fn tables_of_the_other_version_are_passed_over() {
    let table = |name: &str, line: &str| format!("[plugins.'{name}']\n{line}\n");
    let hidden = "disable_hugetlb_controller = false";
    let old = format!("version = 2\n{}", table(CRI, hidden));
    let told = |config: &Containerd| -> Vec<String> {
        config
            .passed_over
            .iter()
            .map(|said| format!("{} {} {}", said.place, said.table, said.belongs))
            .collect()
    };
    let first = read(&[(MAIN, &old)], true);
    assert_eq!((hugetlb(&first), told(&first)), (None, vec![format!("/{MAIN}:3 {CRI} {OLD_CRI}")]));
    let second = read(&[(MAIN, &old)], false);
    assert_eq!((hugetlb(&second).is_some(), told(&second)), (true, vec![]), "containerd 2 takes them");

    let options = "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.maitred]\nruntime_type = 'x'\n";
    let new = format!("version = 3\n{}{options}", table(OLD_CRI, "stream_server_port = '0'"));
    let third = read(&[(MAIN, &new)], false);
    assert_eq!((third.runtimes().count(), told(&third)), (0, vec![format!("/{MAIN}:5 {OLD_CRI} {CRI}")]));
    let mirrors = format!("version = 3\n{}", table(&format!("{OLD_CRI}'.'registry"), "config_path = '/x'"));
    assert_eq!(told(&read(&[(MAIN, &mirrors)], false)), [format!("/{MAIN}:3 {OLD_CRI} {IMAGES}")]);
    let fine = read(&[(MAIN, &new.replace(options, ""))], false);
    assert_eq!(told(&fine), Vec::<String>::new(), "streams are still there");
}
