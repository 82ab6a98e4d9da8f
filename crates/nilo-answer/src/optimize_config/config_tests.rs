//! Configurations that are right, and those that are not.

use nilo_advice::recommend;

use super::*;

fn refused(text: &str) -> (String, String) {
    let error = OptimizeConfig::parse(text).unwrap_err();
    (error.to_string(), error.hint())
}

#[test]
fn the_template_has_every_setting_and_is_right() {
    let template = OptimizeConfig::template();
    let config = OptimizeConfig::parse(&template.to_string()).unwrap();
    assert_eq!(config.given.len(), settings().len());
    // All side by side is the same.
    let mut flat = template["memory"].as_object().unwrap().clone();
    flat.extend(template["training"].as_object().unwrap().clone());
    assert_eq!(
        OptimizeConfig::parse(&Value::Object(flat).to_string()).unwrap(),
        config
    );
    assert_eq!(
        OptimizeConfig::parse("{}").unwrap(),
        OptimizeConfig::default()
    );
}

#[test]
fn each_mistake_is_one_sentence_with_a_hint() {
    for (text, sentence, hint) in [
        ("{", "the configuration is not JSON: ", "--template"),
        (
            "[1]",
            "the configuration is a list, not a JSON object of settings",
            "--template",
        ),
        (
            r#"{"memory": 3}"#,
            "\"memory\" is a number, not a JSON object of settings",
            "--template",
        ),
        (
            r#"{"max_memory_gb": 3}"#,
            "unknown setting \"max_memory_gb\"",
            "did you mean \"max_memory_usage_gb\"?",
        ),
        (r#"{"zzz": 3}"#, "unknown setting \"zzz\"", "--template"),
        (
            r#"{"training": {"gc_threshold_0": 3}}"#,
            "the setting \"gc_threshold_0\" is in the wrong place",
            "put it under \"memory\"",
        ),
        (
            r#"{"memory": {}, "num_workers": 3}"#,
            "the setting \"num_workers\" is in the wrong place",
            "put it under \"training\"",
        ),
        (
            r#"{"max_memory_usage_gb": 8, "memory": {"max_memory_usage_gb": 9}}"#,
            "the setting \"max_memory_usage_gb\" is given twice",
            "remove one of the two",
        ),
        (
            r#"{"training": {"num_workers": 8}, "memory": {"num_workers": 8}}"#,
            "the setting \"num_workers\" is given twice",
            "remove one of the two",
        ),
        (
            r#"{"max_memory_usage_gb": "8"}"#,
            "max_memory_usage_gb is \"8\"; it must be a number above 0",
            "",
        ),
        (
            r#"{"max_memory_usage_gb": 0}"#,
            "max_memory_usage_gb is 0; it must be a number above 0",
            "",
        ),
        (
            r#"{"max_memory_usage_gb": 8, "max_memory_usage_gb": 9}"#,
            "the setting \"max_memory_usage_gb\" is given twice",
            "remove one",
        ),
        (
            r#"{"training": {"num_workers": 1, "num_workers": 1}}"#,
            "the setting \"num_workers\" is given twice",
            "remove one",
        ),
        (
            r#"{"memory": {}, "training": {}, "memory": {}}"#,
            "the setting \"memory\" is given twice",
            "remove one",
        ),
        (
            r#"{"effective_batch_size": 16}"#,
            "initial_batch_size (32 by default) is more than effective_batch_size (16)",
            "lower initial_batch_size",
        ),
        (
            r#"{"max_memory_usage_gb": 1, "buffer_size_limit_mb": 2000}"#,
            "buffer_size_limit_mb (2000 MB) is more than half of max_memory_usage_gb (1 GB)",
            "lower buffer_size_limit_mb",
        ),
        // Written down it counts, also where it is the number that is the default.
        (
            r#"{"max_memory_usage_gb": 1, "buffer_size_limit_mb": 1024}"#,
            "buffer_size_limit_mb (1024 MB) is more than half of max_memory_usage_gb (1 GB)",
            "lower buffer_size_limit_mb",
        ),
        (
            r#"{"buffer_size_limit_mb": 4097}"#,
            "buffer_size_limit_mb (4097 MB) is more than half of max_memory_usage_gb (8 GB by default)",
            "lower buffer_size_limit_mb",
        ),
        (
            r#"{"monitoring_interval": 0.001}"#,
            "monitoring_interval is 0.001; it must be a number from 0.01 to 3600",
            "",
        ),
        (
            r#"{"gc_threshold_0": 3000000000}"#,
            "gc_threshold_0 is 3000000000; it must be a whole number from 1 to 2147483647",
            "",
        ),
        (
            r#"{"memory_threshold": 1.5}"#,
            "memory_threshold is 1.5; it must be a number above 0 and at most 1",
            "",
        ),
        (
            r#"{"memory_threshold": 85}"#,
            "memory_threshold is 85; it must be",
            "",
        ),
        (
            r#"{"gc_threshold_1": 2.5}"#,
            "gc_threshold_1 is 2.5; it must be a whole number from 1 to 2147483647",
            "",
        ),
        (
            r#"{"min_batch_size": -1}"#,
            "min_batch_size is -1; it must be a whole number from 1 to 2147483647",
            "",
        ),
        (
            r#"{"pin_memory": 1}"#,
            "pin_memory is 1; it must be true or false",
            "",
        ),
        (
            r#"{"pin_memory": null}"#,
            "pin_memory is null; it must be true or false",
            "",
        ),
        (
            r#"{"memory_warning_threshold": 0.9, "memory_critical_threshold": 0.9}"#,
            "memory_warning_threshold (0.9) is not below memory_critical_threshold (0.9)",
            "lower memory_warning_threshold",
        ),
        (
            r#"{"memory_warning_threshold": 0.95}"#,
            "memory_warning_threshold (0.95) is not below memory_critical_threshold (0.9 by default)",
            "has its default",
        ),
        (
            r#"{"min_batch_size": 64, "initial_batch_size": 64, "max_batch_size": 32}"#,
            "initial_batch_size (64) is more than max_batch_size (32)",
            "raise max_batch_size",
        ),
        (
            r#"{"min_batch_size": 64}"#,
            "min_batch_size (64) is more than initial_batch_size (32 by default)",
            "lower min_batch_size",
        ),
    ] {
        let (said, what_to_do) = refused(text);
        assert!(said.starts_with(sentence), "{text}: {said}");
        assert!(what_to_do.contains(hint), "{text}: {what_to_do}");
    }
}

#[test]
fn a_whole_number_may_be_written_with_a_point() {
    let mut facts = Facts::default();
    facts.batch.largest_micro_batch = Some(1000);
    let config = OptimizeConfig::parse(r#"{"max_batch_size": 64.0, "effective_batch_size": null}"#);
    config.unwrap().apply(&mut facts);
    // What fits is one thing, what is allowed another.
    assert_eq!(facts.batch.largest_micro_batch, Some(1000));
    assert_eq!(facts.batch.max_micro_batch, Some(64));
    // The default for buffers gives way to a small maximum.
    assert!(OptimizeConfig::parse(r#"{"max_memory_usage_gb": 0.5}"#).is_ok());
    assert!(OptimizeConfig::parse(r#"{"buffer_size_limit_mb": 4096}"#).is_ok());
}

#[test]
fn a_long_name_or_value_is_cut() {
    let long = "x".repeat(5000);
    assert!(refused(&format!(r#"{{"{long}": 1}}"#)).0.len() < 200);
    assert!(refused(&format!(r#"{{"pin_memory": "{long}"}}"#)).0.len() < 200);
    assert!(refused(&format!(r#"{{"{long}": 1, "{long}": 2}}"#)).0.len() < 200);
}

#[test]
fn the_memory_of_a_run_is_judged_by_the_budget() {
    let mut facts = Facts::default();
    facts.host.peak_bytes = Some(7.0 * GIB as f64);
    facts.host.limit_bytes = Some(64.0 * GIB as f64);
    facts.torch.device_bytes = Some(80.0 * GIB as f64);
    facts.batch.largest_micro_batch = Some(1000);
    assert!(recommend(&facts).is_empty());
    let text = r#"{"max_memory_usage_gb": 8, "memory_warning_threshold": 0.5, "memory_critical_threshold": 0.8, "memory_threshold": 0.5, "max_batch_size": 64, "buffer_size_limit_mb": 100, "gpu_warning_threshold": 0.7}"#;
    OptimizeConfig::parse(text).unwrap().apply(&mut facts);
    assert_eq!(facts.host.limit_bytes, Some(8.0 * GIB as f64));
    assert_eq!(facts.model.budget_bytes, Some(40.0 * GIB as f64));
    // What fits is one thing, what is allowed another.
    assert_eq!(facts.batch.largest_micro_batch, Some(1000));
    assert_eq!(facts.batch.max_micro_batch, Some(64));
    assert_eq!(
        facts.thresholds.buffer_limit_bytes,
        Some(100.0 * MIB as f64)
    );
    facts.torch.peak_reserved_bytes = Some(60.0 * GIB as f64);
    let said = recommend(&facts);
    assert_eq!(said[1].rule, "stay-within-gpu");
    assert!(said[1].evidence[0].contains("75 % (a warning from 70 % on)"));
    assert_eq!(said[0].rule, "stay-within-budget");
    assert!(said[0].evidence[0].contains("88 % of the budget of 8.00 GiB (critical from 80 % on)"));
}

#[test]
fn what_is_turned_off_is_not_recommended() {
    let config = OptimizeConfig::parse(r#"{"enable_mixed_precision": false}"#).unwrap();
    assert!(!config.wants("use-autocast") && config.wants("checkpoint-blocks"));
    for (key, rule) in SWITCHES {
        assert!(
            settings().iter().any(|(_, name, _, _)| *name == key),
            "{key}"
        );
        assert!(
            nilo_advice::all_rules().any(|known| known.name == rule),
            "{rule}"
        );
    }
}
