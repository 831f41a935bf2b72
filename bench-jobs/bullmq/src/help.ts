/** What `--help` prints. */
export const HELP = `Adds jobs to BullMQ queues, and processes them, as fast as it can, and measures both.

Usage: dragstrip-bullmq --duration TIME [options]

The published tool's measurement, option by option:
    --mode published -h HOST -p PORT -d SECONDS -r READERS -w WRITERS -q QUEUES [-c READER_CONCURRENCY]

Server:
  -h, --host HOST            host name or address [127.0.0.1]
  -p, --port PORT            TCP port [6379]
      --cluster              the server is a node of a Redis Cluster; queue names need a hash tag
      --username NAME        ACL user; the password is taken from DRAGSTRIP_PASSWORD
      --tls                  speak TLS
      --tls-ca-file FILE     authorities that may sign the server's certificate, PEM [the system's]
      --tls-cert-file FILE   certificate of the client, PEM; with --tls-key-file
      --tls-key-file FILE    its key, PEM
      --tls-server-name NAME name the server's certificate must carry [the host]
      --tls-insecure         take any certificate
      --connect-timeout TIME longest time for a connection to be ready [5s]
      --response-timeout TIME
                             longest silence of the server while replies are outstanding [10s]

Load:
  -d, --duration TIME        how long to measure: 30, 30s, 1m30s; what is in flight then is awaited
  -w, --writers N            threads that add jobs, each with a connection per queue [1]
  -r, --readers N            threads that process jobs, each with a BullMQ worker per queue [0]
  -q, --queues N             queues; every writer adds to all of them in turn [1]
      --mode MODE            published: the published tool's loop, 2000 adds of its own jobs over all
                             queues without waiting, each a write to its connection, then a wait for
                             all of them, and the readers after the writers, for another --duration.
                             fast: adds in flight all the time, those of one turn of the event loop
                             in one write [fast]
      --concurrency N        adds (or addBulk calls) that each writer has in flight; 1 awaits each
                             before the next [2000]
  -c, --reader-concurrency N jobs a BullMQ worker processes at a time [1]
      --bulk N               jobs of one addBulk call; 0 adds them one by one [0]
      --payload JSON         data of every job [{"param1":"value1","param2":"value2"}]
      --payload-bytes N      or a text of N bytes
      --prefix TEXT          BullMQ's key prefix [b]
      --queue-name TEMPLATE  name of the queues, %d is the number from 0 [{queue%d}]
      --reader-start WHEN    together with the writers, or after-writers, for another --duration
                             [together]
      --warmup TIME          load of the same kind before the measured one; counted apart [0s]
      --start-at-unix-nanos N
                             connect first, then start at this instant

Output:
      --progress-interval TIME
                             of the progress lines on standard error; 0s prints none [1s];
                             with the environment variable DRAGSTRIP_PROGRESS_DETAIL=true
                             they show bytes, connections and latencies by bucket too
      --json-out-file FILE   where the result goes
      --keep-keys            leave the queues in the server; otherwise they are removed
      --cleanup-timeout TIME longest time for that; what is left then is a note [60s]
      --shared-queues        other clients use the same queues at the same time: the server may
                             hold more than this client added, and keys remain  
      --help, --version

Latency of an add: from the call of BullMQ's Queue.add (each job of an addBulk: of that call)
until its promise is fulfilled, in microseconds; the result says what that contains. Latency of a
processed job: from the moment it is handed to the processor, which does nothing, until the server
has confirmed its completion. Adds and processed jobs are two things, each with a time of its own.
An add belongs to the warm-up or to the measurement by the instant it was begun.
After the load the queues are counted: a server that holds other numbers of jobs than were
confirmed fails the run, with both figures.

Exit codes:
    0  completed, every reply was a success, the queues hold what was added
    2  unusable command line or environment, nothing was sent
    3  host name not resolved
    4  connection refused, unreachable or not made within --connect-timeout
    5  credentials refused, or wanted and not given
    6  handshake failed
    7  connection lost during the run
    8  no reply within --response-timeout
    9  a cluster node without --cluster, or --cluster with a server that is not a node
   10  some replies were errors
   11  the result could not be written
   12  the client could not do its work (see the message)
   14  the queues do not hold what was added
  130  ended by SIGINT, partial result written
  143  ended by SIGTERM, partial result written
`;
