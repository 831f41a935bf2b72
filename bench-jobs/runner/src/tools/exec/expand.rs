//! `${HOST}` and its like in a command. Pure.

use crate::tools::adapter::LaunchContext;
use dragstrip_loadgen::specification::host_and_port;
use dragstrip_results::protocol::JobSpec;

const VARIABLE_PREFIX: &str = "DRAGSTRIP_";
/// The target's password; with the prefix it is the variable of our own tools.
const PASSWORD: &str = "PASSWORD";

#[derive(Debug, Clone)]
pub(super) struct Values(Vec<(&'static str, String)>);

impl Values {
    pub(super) fn of(job: &JobSpec, context: &LaunchContext) -> Self {
        // The host as declared, since certificates and virtual hosts go by names.
        let (host, port) = (job.target.host.clone(), job.target.port);
        let address = host_and_port(&host, port);
        let members: Vec<_> =
            job.target.members.iter().map(|member| host_and_port(&member.host, member.port)).collect();
        let found: Vec<_> = context.members.iter().map(ToString::to_string).collect();
        let members = match (members.is_empty(), found.is_empty()) {
            (false, _) => members.join(","),
            (true, false) => found.join(","),
            (true, true) => address.clone(),
        };
        Self(vec![
            ("HOST", host),
            ("PORT", port.to_string()),
            ("ADDRESS", address),
            ("MEMBERS", members),
            ("OUTPUT", context.output_directory.display().to_string()),
            ("CLIENT_INDEX", context.client_index.to_string()),
            ("CLIENTS", job.clients.to_string()),
            (PASSWORD, context.password.clone().unwrap_or_default()),
        ])
    }

    /// `text` with every `${NAME}` replaced; other names, and every
    /// other dollar sign, stay as they are. What is put in is not expanded again.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            expanded.push_str(before);
            let name = from.find('}').map(|end| &from[2..end]);
            let value = name.and_then(|name| self.0.iter().find(|(variable, _)| *variable == name));
            let length = if let (Some(name), Some((_, value))) = (name, value) {
                expanded.push_str(value);
                name.len() + 3
            } else {
                expanded.push_str("${");
                2
            };
            rest = &from[length..];
        }
        expanded.push_str(rest);
        expanded
    }

    /// The same as environment variables; without a password there is no such variable.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> + use<'_> {
        let set = self.0.iter().filter(|(name, value)| *name != PASSWORD || !value.is_empty());
        set.map(|(name, value)| (format!("{VARIABLE_PREFIX}{name}"), value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{context, job};
    use dragstrip_results::protocol::{JobMember, PASSWORD_VARIABLE};
    use proptest::prelude::*;
    use std::path::Path;

    const TOOL: &str = r#"{"loadgen": {"duration": "5s"}}"#;

    fn values() -> Values {
        Values::of(&job(3, TOOL), &context(1, Path::new("/out")))
    }

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        let text =
            "-h ${HOST} -p ${PORT} --to=${ADDRESS},${MEMBERS} > ${OUTPUT}/r.${CLIENT_INDEX}of${CLIENTS}";
        assert_eq!(values().expand(text), "-h db -p 6379 --to=db:6379,db:6379 > /out/r.1of3");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in ["$HOST", "${host}", "${HOME}", "${", "$", "${HOST", "a}${}b", "$(HOST)"] {
            assert_eq!(values().expand(text), text);
        }
        assert_eq!(values().expand("${${HOST}}"), "${db}");
    }

    #[test]
    fn members_are_listed_as_declared() {
        let mut job = job(1, TOOL);
        job.target.members =
            ["a", "fd00::1"].map(|host| JobMember { host: host.into(), port: 2379, run_id: None }).to_vec();
        let values = Values::of(&job, &context(0, Path::new("/out")));
        assert_eq!(values.expand("${MEMBERS}"), "a:2379,[fd00::1]:2379");
    }

    #[test]
    fn variables_carry_the_projects_prefix() {
        let variables: Vec<_> = values().variables().collect();
        assert!(variables.contains(&("DRAGSTRIP_ADDRESS".to_owned(), "db:6379".to_owned())), "{variables:?}");
        assert!(variables.contains(&(PASSWORD_VARIABLE.to_owned(), "hush".to_owned())), "{variables:?}");
    }

    #[test]
    fn the_password_goes_where_the_tool_needs_it_and_is_a_variable_only_if_there_is_one() {
        assert_eq!(values().expand("--pass=${PASSWORD}"), "--pass=hush");
        let none = LaunchContext { password: None, ..context(0, Path::new("/out")) };
        let values = Values::of(&job(1, TOOL), &none);
        assert_eq!(values.expand("--pass=${PASSWORD}"), "--pass=");
        assert!(values.variables().all(|(name, _)| name != PASSWORD_VARIABLE));
    }

    proptest! {
        #[test]
        fn any_text_is_expanded_without_a_panic(text in "(\\$|\\{|\\}|HOST|é|[a-z]){0,30}") {
            let expanded = values().expand(&text);
            let left = expanded.contains("${HOST}");
            prop_assert!(!left, "{} became {}", text, expanded);
        }
    }
}
