//! The message of Prometheus remote write 1.0: protobuf, in snappy's block format. Pure.

use super::timeline::Series;
use prost::Message;

/// Samples of one request. Prometheus itself sends 2000 at a time.
pub const MOST_SAMPLES: usize = 5000;

/// Series with their samples.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// Each series once.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// One series.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Its name and labels, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Its samples, oldest first.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// A label; that called `__name__` has the metric's name.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// The value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Milliseconds of Unix time.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

impl WriteRequest {
    /// How many samples it has.
    pub fn samples(&self) -> usize {
        self.timeseries.iter().map(|series| series.samples.len()).sum()
    }

    /// As it is sent.
    pub fn compressed(&self) -> Result<Vec<u8>, snap::Error> {
        snap::raw::Encoder::new().compress_vec(&self.encode_to_vec())
    }
}

/// The requests that carry `timeline`, each series with the labels `common` too, of at
/// most [`MOST_SAMPLES`] each, in the order in which they must be sent.
pub fn requests(timeline: &[Series], common: &[(&str, &str)]) -> Vec<WriteRequest> {
    let mut requests: Vec<WriteRequest> = Vec::new();
    for series in timeline {
        let mut labels: Vec<Label> = common
            .iter()
            .chain(&[("operation", series.operation.as_str())])
            .map(|(name, value)| Label { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        labels.sort_by(|one, other| one.name.cmp(&other.name));
        for samples in series.samples.chunks(MOST_SAMPLES) {
            let part = TimeSeries { labels: labels.clone(), samples: samples.to_vec() };
            match requests.last_mut() {
                Some(last) if last.samples() + samples.len() <= MOST_SAMPLES => last.timeseries.push(part),
                _ => requests.push(WriteRequest { timeseries: vec![part] }),
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_a_request_is_as_the_specification_has_it() {
        let series =
            Series { operation: "GET".into(), samples: vec![Sample { value: 1.5, timestamp: 1000 }] };
        let [request] = &requests(&[series], &[("run", "sprint"), ("__name__", "m")])[..] else {
            panic!("one sample is one request");
        };
        // By the field numbers of remote.proto and types.proto.
        let label = |name: &str, value: &str| {
            let (n, v) = (u8::try_from(name.len()).unwrap(), u8::try_from(value.len()).unwrap());
            [&[0x0a, n + v + 4, 0x0a, n], name.as_bytes(), &[0x12, v], value.as_bytes()].concat()
        };
        let sample = [&[0x12, 12, 0x09][..], &1.5_f64.to_le_bytes(), &[0x10, 0xe8, 0x07]].concat();
        let inner =
            [label("__name__", "m"), label("operation", "GET"), label("run", "sprint"), sample].concat();
        let expected = [&[0x0a, u8::try_from(inner.len()).unwrap()][..], &inner].concat();
        let sent = snap::raw::Decoder::new().decompress_vec(&request.compressed().unwrap()).unwrap();
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_long_timeline_is_sent_in_order_and_in_parts() {
        let of = |operation: &str, count: i64| Series {
            operation: operation.into(),
            samples: (0..count).map(|timestamp| Sample { value: 1.0, timestamp }).collect(),
        };
        let requests = requests(&[of("GET", 12_000), of("SET", 10), of("TOTAL", 3000)], &[]);
        let sizes: Vec<usize> = requests.iter().map(WriteRequest::samples).collect();
        assert_eq!(sizes, [5000, 5000, 2010, 3000]);
        let sent = requests.iter().flat_map(|request| &request.timeseries);
        let get: Vec<i64> = sent
            .filter(|series| series.labels[0].value == "GET")
            .flat_map(|series| series.samples.iter().map(|sample| sample.timestamp))
            .collect();
        assert_eq!(get, (0..12_000).collect::<Vec<_>>(), "out of order it would be refused");
    }
}
