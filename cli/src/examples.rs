//! The examples in the help of each command. Pure.

use clap::Command;

/// By command; NAME stands for the name of the program.
const EXAMPLES: [(&str, &str); 9] = [
    (
        "run",
        "NAME run --local -f examples/local.yaml\n  NAME run -f examples/quickstart.yaml --watch\n  NAME run -f examples/quickstart.yaml --name-suffix 2 --watch",
    ),
    ("follow", "NAME follow redis-read valkey-read\n  NAME follow suite/engines --timeout 3h"),
    (
        "report",
        "NAME report redis-read valkey-read\n  NAME report suite engines --format html --output-file engines.html",
    ),
    (
        "compare",
        "NAME compare redis-read valkey-read\n  NAME compare published.csv suite/engines\n  NAME compare main.json branch.json --format markdown",
    ),
    ("cancel", "NAME cancel redis-read suite/engines"),
    ("validate", "NAME validate -f examples/quickstart.yaml\n  helm template my-chart | NAME validate -f -"),
    ("doctor", "NAME doctor\n  NAME doctor -f examples/quickstart.yaml"),
    (
        "calibrate",
        "NAME calibrate --datastore redis --repetitions 5 --duration 30s --client-nodes dragstrip.dev/role=client",
    ),
    ("completions", "source <(NAME completions bash)"),
];

/// `command` with examples in each command's help, for a program called `name`.
pub fn with(mut command: Command, name: &str) -> Command {
    for (subcommand, example) in EXAMPLES {
        let text = format!("Example:\n  {}", example.replace("NAME", name));
        command = command.mut_subcommand(subcommand, |below| below.after_help(text));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example_that_parses() {
        let command = with(crate::Arguments::command(), "dragstrip");
        for below in command.get_subcommands() {
            assert!(below.get_after_help().is_some(), "{} has no example", below.get_name());
        }
        for (_, example) in EXAMPLES {
            for line in example.lines().filter(|line| line.trim_start().starts_with("NAME")) {
                let words = line.trim().replace("NAME", "dragstrip");
                let parsed = command.clone().try_get_matches_from(words.split_whitespace());
                assert!(
                    parsed.is_ok(),
                    "{words}: {}",
                    parsed.err().map(|error| error.to_string()).unwrap_or_default()
                );
            }
        }
    }

    #[test]
    fn a_plugin_of_kubectl_shows_its_own_name() {
        let mut command =
            crate::program_command(Some(std::path::Path::new("/usr/local/bin/kubectl-dragstrip")));
        let help = command.find_subcommand_mut("follow").unwrap().render_help().to_string();
        assert!(help.contains("kubectl dragstrip follow redis-read"), "{help}");
    }
}
