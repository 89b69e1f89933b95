//! The protocol of readers under test: requests are JSON objects on standard input, one per line, and each is answered with a line.

use std::io::{BufRead, stdin};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

/// The keys of an answer without rows.
pub struct Refusal(Value);

impl Refusal {
    pub fn unsupported(why: impl ToString) -> Self {
        Self(json!({"unsupported": why.to_string()}))
    }

    pub fn error(class: impl ToString, message: impl ToString) -> Self {
        Self(json!({"error": class.to_string(), "message": message.to_string()}))
    }
}

/// Answers requests until there are no more.
///
/// `hello` is the answer to the first request, and `answer` returns the keys of each later answer.
pub fn serve(hello: &Value, answer: impl Fn(&Value) -> Result<Value, Refusal>) {
    for line in stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if asked["op"] == "hello" {
            println!("{hello}");
            continue;
        }
        let mut said = match catch_unwind(AssertUnwindSafe(|| answer(&asked))) {
            Ok(Ok(rows)) => rows,
            Ok(Err(Refusal(why))) => why,
            Err(cause) => {
                let text = cause.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| cause.downcast_ref::<&str>().map(|each| each.to_string()));
                json!({"error": "panic", "message": text.unwrap_or_default(), "panic": true})
            }
        };
        said["id"] = asked["id"].clone();
        println!("{said}");
    }
}
