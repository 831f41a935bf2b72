/** What `--help` prints. */
export const HELP = `Adds jobs to BullMQ queues and processes them, as fast as possible, and measures both.

Usage: dragstrip-bullmq --duration TIME [options]

The published tool's measurement:
    --mode published -h HOST -p PORT -d SECONDS -r READERS -w WRITERS -q QUEUES [-c READER_CONCURRENCY]

Server:
  -h, --host HOST            host name or address [127.0.0.1]
  -p, --port PORT            TCP port [6379]
      --cluster              the server is a node of a Redis Cluster; queue names need a hash tag
      --username NAME        ACL user; DRAGSTRIP_PASSWORD has the password
      --tls                  encrypt connections
      --tls-ca-file FILE     authorities of the server's certificate, PEM [the system's]
      --tls-cert-file FILE   certificate of the client, PEM; with --tls-key-file
      --tls-key-file FILE    its key, PEM
      --tls-server-name NAME name in the server's certificate [the host]
      --tls-insecure         accept any certificate
      --connect-timeout TIME longest time for a connection to be ready [5s]
      --response-timeout TIME
                             longest silence of the server while replies are outstanding [10s]

Load:
  -d, --duration TIME        how long to measure: 30, 30s, 1m30s; then await what is in flight
  -w, --writers N            threads that add jobs, each with a connection per queue [1]
  -r, --readers N            threads that process jobs, each with a BullMQ worker per queue [0]
  -q, --queues N             queues; every writer adds to all of them in turn [1]
      --mode MODE            published: the published tool's loop: send 2000 adds over all queues, each
                             a write of its own, then await all of them; readers run after the
                             writers, for another --duration.
                             fast: a constant number of adds in flight, one write for each turn of the
                             event loop [fast]
      --concurrency N        adds (or addBulk calls) in flight of each writer; 1 awaits each add [2000]
  -c, --reader-concurrency N jobs a BullMQ worker processes at a time [1]
      --bulk N               jobs of one addBulk call; 0 adds them one by one [0]
      --payload-bytes N      size of each job's data, in bytes of text [32]
      --queue-name TEMPLATE  name of the queues, %d is the number from 0 [{queue%d}]
      --reader-start WHEN    together with the writers, or after-writers, for another --duration
                             [together]
      --warmup TIME          the same load before the measurement, with its own counts [0s]
      --start-at-unix-nanos N
                             connect first, then start at this instant

Output:
      --progress-interval TIME
                             interval of progress lines on standard error; 0s prints none [1s].
                             With the environment variable DRAGSTRIP_PROGRESS_DETAIL=true
                             they include bytes, connections and latency buckets
      --json-out-file FILE   write the result to this file
      --keep-keys            leave the queues in the server instead of removing them
      --cleanup-timeout TIME longest time to remove them; the result notes what is left [60s]
      --shared-queues        other clients use the same queues: the server may have more jobs than
                             this client added, and the keys stay
      --help, --version

Latency of an add, in microseconds: from the call of BullMQ's Queue.add (for each job of an
addBulk, of that call) until its promise is fulfilled. Latency of a processed job: from the call of
the processor, which does nothing, until the server has confirmed its completion. An add belongs to
the warm-up or the measurement by its start.
After the load, the tool counts the queues: if the server has another number of jobs than it
confirmed, the run fails with both figures.

Exit codes:
    0  completed, every reply was a success, the queues hold what was added
    2  unusable command line or environment, nothing was sent
    3  host name not resolved
    4  connection refused, unreachable or not made within --connect-timeout
    5  credentials refused or missing
    6  handshake failed
    7  connection lost during the run
    8  no reply within --response-timeout
    9  cluster node without --cluster, or --cluster without a cluster node
   10  some replies were errors
   11  the result could not be written
   12  the client failed (see the message)
   14  the queues do not hold what was added
  130  ended by SIGINT, partial result written
  143  ended by SIGTERM, partial result written
`;
