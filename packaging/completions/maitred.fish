# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_maitred_global_optspecs
    string join \n h/help V/version
end

function __fish_maitred_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_maitred_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_maitred_using_subcommand
    set -l cmd (__fish_maitred_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c maitred -n "__fish_maitred_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_needs_command" -s V -l version -d 'Print version'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "nri" -d 'Run as NRI plugin of containerd'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "hook" -d 'Seat one container as an OCI hook'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "runtime" -d 'Stand in front of runc, crun, youki or nvidia-container-runtime'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "topology" -d 'Print the machine'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "plan" -d 'Seat pods on a machine without touching it'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "status" -d 'Show who holds what on this node'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "explain" -d 'Tell why a pod or container was placed or refused'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "verify" -d 'Compare running containers with their placement'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "doctor" -d 'Find what silently keeps containers from being pinned'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "off" -d 'Break-glass: decide nothing on this node'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "on" -d 'Undo `maitred off`'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "version" -d 'Print the version'
complete -c maitred -n "__fish_maitred_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l socket -d 'containerd\'s NRI socket' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l name -d 'The name to register with' -r
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l index -d 'The place among the plugins, two digits' -r
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l sysroot -d 'Read the machine from DIR/sys and DIR/proc' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand nri" -l store -d 'Where allocations and the switch are kept' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand nri" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand hook" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand hook" -l log -d 'Where the log is written' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand hook" -l sysroot -d 'Read the machine from DIR/sys and DIR/proc' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand hook" -l store -d 'Where allocations and the switch are kept' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand hook" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand runtime" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand topology" -l topology -d 'A machine as `maitred topology -o json` prints it; - is standard input' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand topology" -l sysroot -d 'Read the machine from DIR/sys and DIR/proc [default: this machine]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand topology" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand topology" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'
svg\t'A picture, for browsers and documents'"
complete -c maitred -n "__fish_maitred_using_subcommand topology" -l ask-driver -d 'Ask NVIDIA\'s library below DIR, print nothing, and end: other verbs see by that whether its driver answers' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand topology" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l topology -d 'A machine as `maitred topology -o json` prints it; - is standard input' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l sysroot -d 'Read the machine from DIR/sys and DIR/proc [default: this machine]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l set -d 'Plan as if the configuration said so, policy.topology=restricted; can be repeated' -r
complete -c maitred -n "__fish_maitred_using_subcommand plan" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'
svg\t'A picture, for browsers and documents'"
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l fill -d 'How many replicas of the last pod fit beside those before it, on which node, and what runs out first'
complete -c maitred -n "__fish_maitred_using_subcommand plan" -l replicas -d 'Seat as many of each pod as its workload asks for, as if all came to this node'
complete -c maitred -n "__fish_maitred_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand status" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand status" -l sysroot -d 'Read the machine from DIR/sys, DIR/proc and DIR/run/maitred' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand status" -l store -d 'Where allocations are kept [default: run/maitred below the sysroot]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand status" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'
svg\t'A picture, for browsers and documents'"
complete -c maitred -n "__fish_maitred_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand explain" -l log -d 'Read the verdicts from a log (JSON lines) in place of the journal; - is standard input' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand explain" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand explain" -l sysroot -d 'Read the machine from DIR/sys, DIR/proc and DIR/run/maitred' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand explain" -l store -d 'Where allocations are kept [default: run/maitred below the sysroot]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand explain" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'"
complete -c maitred -n "__fish_maitred_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand verify" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'"
complete -c maitred -n "__fish_maitred_using_subcommand verify" -l config -d 'The configuration [default: /etc/maitred/config.toml, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand verify" -l sysroot -d 'Read the machine from DIR/sys, DIR/proc and DIR/run/maitred' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand verify" -l store -d 'Where allocations are kept [default: run/maitred below the sysroot]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand verify" -s v -l verbose -d 'Say of each process what it has, and name everybody else'
complete -c maitred -n "__fish_maitred_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand doctor" -l root -d 'Look into DIR, which holds what was gathered of a node: etc, proc, sys, var, run, opt, or some of them' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand doctor" -l config -d 'maitred\'s configuration [default: etc/maitred/config.toml of the node, if there]' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand doctor" -s o -l output -d 'What to print' -r -f -a "text\t'Tables for people'
json\t'JSON, for programs'"
complete -c maitred -n "__fish_maitred_using_subcommand doctor" -s v -l verbose -d 'Tell also what is fine'
complete -c maitred -n "__fish_maitred_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand off" -l reason -d 'Why, for whoever finds it off' -r
complete -c maitred -n "__fish_maitred_using_subcommand off" -l store -d 'Where the switch is kept' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand off" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand on" -l store -d 'Where the switch is kept' -r -F
complete -c maitred -n "__fish_maitred_using_subcommand on" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "nri" -d 'Run as NRI plugin of containerd'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "hook" -d 'Seat one container as an OCI hook'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "runtime" -d 'Stand in front of runc, crun, youki or nvidia-container-runtime'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "topology" -d 'Print the machine'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "plan" -d 'Seat pods on a machine without touching it'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "status" -d 'Show who holds what on this node'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "explain" -d 'Tell why a pod or container was placed or refused'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "verify" -d 'Compare running containers with their placement'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "doctor" -d 'Find what silently keeps containers from being pinned'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "off" -d 'Break-glass: decide nothing on this node'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "on" -d 'Undo `maitred off`'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "version" -d 'Print the version'
complete -c maitred -n "__fish_maitred_using_subcommand help; and not __fish_seen_subcommand_from nri hook runtime topology plan status explain verify doctor off on version help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
