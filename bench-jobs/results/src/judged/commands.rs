//! A tool and a server name the same work differently: which of the server's commands an
//! operation sends, and how often. Pure.

use crate::result::{Operation, PodResult};
use std::collections::BTreeSet;

/// The commands that Redis and its kin count, in lower case. Those of modules hold a point.
const COMMANDS: &str = "
    acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove
    blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client cluster command config copy dbsize
    debug decr decrby del delex delifeq digest discard dump echo eval eval_ro evalsha evalsha_ro exec
    exists expire expireat expiretime failover fcall fcall_ro flushall flushdb function geoadd geodist
    geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch
    geosearchstore get getbit getdel getex getrange getset hdel hello hexists hexpire hexpireat
    hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hpersist
    hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr
    incrby incrbyfloat info keys lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop lpos
    lpush lpushx lrange lrem lset ltrim memory mget migrate module monitor move mset msetex msetnx
    multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfmerge ping psetex psubscribe
    psync pttl publish pubsub punsubscribe quit randomkey readonly readwrite rename renamenx replicaof
    reset restore role rpop rpoplpush rpush rpushx sadd save scan scard script sdiff sdiffstore select
    set setbit setex setnx setrange shutdown sinter sintercard sinterstore sismember slaveof slowlog
    smembers smismember smove sort sort_ro spop spublish srandmember srem sscan ssubscribe strlen
    subscribe substr sunion sunionstore sunsubscribe swapdb time touch ttl type unlink unsubscribe
    unwatch vadd vcard vdim vemb vgetattr vinfo vlinks vrandmember vrem vsetattr vsim wait waitaof
    watch xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup xinfo xlen xpending xrange xread
    xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard
    zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore
    zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex
    zrevrangebyscore zrevrank zscan zscore zunion zunionstore";

/// Commands by which clients introduce themselves and discover the server. Not every server
/// knows all of them, and none of them is load.
const INTRODUCTIONS: [&str; 14] = [
    "acl", "auth", "client", "cluster", "command", "config", "debug", "hello", "info", "latency", "module",
    "readonly", "script", "select",
];

/// Whether a server's counter called `name` counts no load: clients introduce themselves with it.
pub(super) fn introduces(name: &str) -> bool {
    INTRODUCTIONS.contains(&name.split('|').next().unwrap_or(name))
}

/// Whether `command` runs other commands, which the server counts too.
pub(super) fn runs_others(command: &str) -> bool {
    ["eval", "exec", "fcall", "function"].iter().any(|start| command.starts_with(start))
}

/// The command that a label of a tool begins with, in lower case: `mset` of `MSET (10 keys)`,
/// `lrange` of `LRANGE_100 (first 100 elements)`, `get` of `GET#2`, `memory` of `MEMORY USAGE`.
/// `None` if it names no command.
pub fn named(label: &str) -> Option<String> {
    let word = label.split_whitespace().next()?.to_lowercase();
    let word = word.split('#').next()?;
    let known = |name: &&str| COMMANDS.split_whitespace().any(|command| command == *name);
    let of_module = |name: &&str| name.split('.').count() > 1 && name.split('.').all(is_word);
    let whole = Some(word).filter(|name| known(name) || of_module(name));
    whole.or_else(|| word.split('_').next().filter(known)).map(str::to_owned)
}

/// A number before a point would be one after it too.
fn is_word(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_lowercase())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Uses of operations, each of which is one call of any one of some commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The commands, in lower case; `memory` stands for all that begin with `memory|` too.
    pub commands: BTreeSet<String>,
    /// How often any of them was sent and answered, errors included.
    pub count: u64,
}

/// The commands that clients say they sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// No command is in two of them.
    sent: Vec<Sent>,
    /// Operations that are not a command of the server.
    others: BTreeSet<String>,
}

impl Account {
    /// What one client sent: by its tool's own count, or else by its operations.
    pub fn of(result: &PodResult) -> Self {
        let mut account = Self::default();
        for (command, count) in &result.commands {
            account.add(BTreeSet::from([command.clone()]), *count);
        }
        if result.commands.is_empty() {
            for operation in &result.operations {
                account.add_operation(operation);
            }
        }
        account
    }

    fn add_operation(&mut self, operation: &Operation) {
        if operation.commands.is_empty() {
            self.others.insert(operation.name.clone());
        } else {
            self.add(operation.commands.iter().cloned().collect(), operation.count + operation.errors);
        }
    }

    /// Operations that share a command can only be counted together.
    fn add(&mut self, commands: BTreeSet<String>, count: u64) {
        if count == 0 {
            return;
        }
        let mut joined = Sent { commands, count };
        let (same, apart): (Vec<_>, Vec<_>) =
            self.sent.drain(..).partition(|sent| !sent.commands.is_disjoint(&joined.commands));
        for sent in same {
            joined.commands.extend(sent.commands);
            joined.count += sent.count;
        }
        self.sent = apart;
        self.sent.push(joined);
    }

    pub fn extend(&mut self, other: Self) {
        for sent in other.sent {
            self.add(sent.commands, sent.count);
        }
        self.others.extend(other.others);
    }

    /// The commands, those together that can only be counted together.
    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// Operations that the server does not count by any name.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(commands: &[&str], count: u64) -> Sent {
        Sent { commands: commands.iter().map(|&command| command.to_owned()).collect(), count }
    }

    #[test]
    fn labels_of_tools_begin_with_the_command_or_name_none() {
        for (label, command) in [
            ("GET", Some("get")),
            ("GET#2", Some("get")),
            ("MSET (10 keys)", Some("mset")),
            ("LRANGE_100 (first 100 elements)", Some("lrange")),
            ("PING_INLINE", Some("ping")),
            ("LPUSH (needed to benchmark LRANGE)", Some("lpush")),
            ("EVAL_RO", Some("eval_ro")),
            ("set key:__rand_int__ a \"quoted\" value", Some("set")),
            ("MEMORY USAGE", Some("memory")),
            ("FT.SEARCH", Some("ft.search")),
            ("MSET+EXPIREAT", None),
            ("add-job", None),
            ("READ", None),
            ("1.5", None),
            ("HTTP GET", None),
            ("", None),
        ] {
            assert_eq!(named(label).as_deref(), command, "{label:?}");
        }
    }

    #[test]
    fn operations_that_share_a_command_are_counted_together() {
        let mut account = Account::default();
        for (commands, count) in
            [(&["lpush"][..], 5), (&["get"], 7), (&["set", "setex"], 2), (&["lpush"], 3), (&["set"], 1)]
        {
            account.add(sent(commands, 0).commands, count);
        }
        account.add(sent(&["del"], 0).commands, 0);
        let mut twice = account.clone();
        assert_eq!(account.sent, [sent(&["get"], 7), sent(&["lpush"], 8), sent(&["set", "setex"], 3)]);
        twice.extend(account);
        assert_eq!(twice.sent, [sent(&["get"], 14), sent(&["lpush"], 16), sent(&["set", "setex"], 6)]);
    }
}
