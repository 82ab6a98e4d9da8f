//! What is hidden, and what stays.

use std::collections::BTreeMap;

use super::*;

fn hidden(line: &str) -> String {
    let words: Vec<String> = line.split('|').map(str::to_owned).collect();
    redact_arguments(&words).join("|")
}

#[test]
fn secrets_are_hidden_by_their_names() {
    for (line, expected) in [
        ("t.py|--token|abc|--lr|0.1", "t.py|--token|***|--lr|0.1"),
        ("t.py|--token=abc", "t.py|--token=***"),
        ("t.py|--hf_token|-x9", "t.py|--hf_token|***"),
        ("t.py|-password|p w", "t.py|-password|***"),
        ("env|HF_TOKEN=abc|t.py", "env|HF_TOKEN=***|t.py"),
        (
            "env|WANDB_API_KEY=abc|OPENAI_KEY=x",
            "env|WANDB_API_KEY=***|OPENAI_KEY=***",
        ),
        (
            "env|MY_TOKEN=a b c|t.py|--x|d e",
            "env|MY_TOKEN=***|t.py|--x|d e",
        ),
        (
            "/usr/bin/env|LANG=C|MY_TOKEN=a b|t.py",
            "/usr/bin/env|LANG=C|MY_TOKEN=***|t.py",
        ),
        (
            "docker|run|-e|MY_TOKEN=a b|image",
            "docker|run|-e|MY_TOKEN=***|image",
        ),
        (
            "ssh|host|HF_TOKEN=abc python t.py",
            "ssh|host|HF_TOKEN=*** python t.py",
        ),
        ("KEY=abc", "KEY=***"),
        ("t.py|model.apiKey=abc", "t.py|model.apiKey=***"),
        (
            "t.py|--aws-secret-access-key|q",
            "t.py|--aws-secret-access-key|***",
        ),
        (
            "bash|-c|export DB_PASSWORD='a b'; run",
            "bash|-c|export DB_PASSWORD='*** ***'; run",
        ),
        (
            "bash|-c|HF_TOKEN=abc python t.py --token x --lr 1",
            "bash|-c|HF_TOKEN=*** python t.py --token *** --lr 1",
        ),
        (
            "curl|-H|Authorization: Bearer abc|http://x/",
            "curl|-H|Authorization: Bearer ***|http://x/",
        ),
        ("curl|-H|Authorization:abc", "curl|-H|Authorization:***"),
        ("curl|-H|X-Api-Key: abc", "curl|-H|X-Api-Key: ***"),
        (
            "t.py|{\"api_key\": \"abc\", \"lr\": 1}",
            "t.py|{\"api_key\": \"***\", \"lr\": 1}",
        ),
        (
            "t.py|{\"api_key\":\"abc\",\"lr\":1}",
            "t.py|{\"api_key\":\"***\",\"lr\":1}",
        ),
        (
            "t.py|http://x/?a=1&token=abc&b=2",
            "t.py|http://x/?a=1&token=***&b=2",
        ),
        ("t.py|postgres://me:pw@db/x", "t.py|postgres://me:***@db/x"),
    ] {
        assert_eq!(hidden(line), expected);
    }
    assert_eq!(
        redact_text("curl -H 'Authorization: Bearer abc' http://x/ --token q --lr 1"),
        "curl -H 'Authorization: Bearer ***' http://x/ --token *** --lr 1"
    );
}

#[test]
fn names_written_as_one_word_and_names_of_services_are_known() {
    for name in [
        "PGPASSWORD",
        "MYTOKEN",
        "DBPASS",
        "SECRETKEY",
        "--wandb-key",
        "--openai_key",
        "--openaikey",
        "--hftoken",
        "--pw",
        "--jwt",
        "--otp",
        "--model.hfToken",
        "--set=db.password",
    ] {
        assert_eq!(
            hidden(&format!("t.py|{name}=x1")),
            format!("t.py|{name}=***")
        );
    }
    assert_eq!(
        hidden("t.py|--hftoken|x|--pw|y"),
        "t.py|--hftoken|***|--pw|***"
    );
    for (line, expected) in [
        (
            "t.py|--conf={\"token\": \"x\", \"lr\": 1}",
            "t.py|--conf={\"token\": \"***\", \"lr\": 1}",
        ),
        (
            "t.py|--conf={\"a\":{\"token\":\"x\"},\"lr\":1}",
            "t.py|--conf={\"a\":{\"token\":\"***\"},\"lr\":1}",
        ),
        ("t.py|--conf={token: x}", "t.py|--conf={token: ***}"),
    ] {
        assert_eq!(hidden(line), expected);
    }
}

#[test]
fn settings_are_hidden_by_their_names_and_looks() {
    let mut settings = serde_json::from_value(serde_json::json!({
        "api_key": "x", "db/password": "x", "secrets/openai": "x", "wandb_key": ["x", 1],
        "servers": [{"token": "x", "port": 1}],
        "url": "https://me:x@host/", "id": "hf_abcdefghijklmnopqrstuvwxyz01234567",
        "max_tokens": 512, "token": 5, "hub_token": null, "pad_token": "<pad>", "tokenizer": "gpt2", "optimizer": "adam",
        "prompt": "say the password: please", "sort_key": "name", "password": "",
    }))
    .expect("an object");
    redact_settings(&mut settings);
    assert_eq!(
        serde_json::to_value(settings).expect("JSON"),
        serde_json::json!({
            "api_key": "***", "db/password": "***", "secrets/openai": "***", "wandb_key": ["***", 1],
            "servers": [{"token": "***", "port": 1}],
            "url": "https://me:***@host/", "id": "***",
            "max_tokens": 512, "token": 5, "hub_token": null, "pad_token": "<pad>", "tokenizer": "gpt2", "optimizer": "adam",
            "prompt": "say the password: please", "sort_key": "name", "password": "",
        })
    );
}

#[test]
fn command_lines_among_settings_are_hidden_as_others() {
    let mut settings = serde_json::from_value(serde_json::json!({
        "cmd": "train --token x --lr 1", "env": "HF_TOKEN=x", "list": ["t.py", "--token", "x", 3, "--lr", "1"],
        "nested": {"argv": ["--pass=x"]}, "formula": "a=b -c", "range": ["-1", "token", "x"],
    }))
    .expect("an object");
    redact_settings(&mut settings);
    assert_eq!(
        serde_json::to_value(settings).expect("JSON"),
        serde_json::json!({
            "cmd": "train --token *** --lr 1", "env": "HF_TOKEN=***", "list": ["t.py", "--token", "***", 3, "--lr", "1"],
            "nested": {"argv": ["--pass=***"]}, "formula": "a=b -c", "range": ["-1", "token", "x"],
        })
    );
    let tag = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut tags = BTreeMap::from([
        tag("token", "x"),
        tag("lr", "3e-4"),
        tag("cmd", "t.py --token x"),
    ]);
    redact_tags(&mut tags);
    let hidden = [
        tag("token", "***"),
        tag("lr", "3e-4"),
        tag("cmd", "t.py --token ***"),
    ];
    assert_eq!(tags, BTreeMap::from(hidden));
}

#[test]
fn short_options_are_passwords_for_some_programs() {
    for (line, expected) in [
        ("curl|-u|me:pw|http://x/", "curl|-u|me:***|http://x/"),
        ("/usr/bin/curl|-ume:pw|-s|x", "/usr/bin/curl|-ume:***|-s|x"),
        ("curl|--user=me:pw|x", "curl|--user=me:***|x"),
        (
            "curl|-H|Accept: a/b|--user|me:p:w|x",
            "curl|-H|Accept: a/b|--user|me:***|x",
        ),
        ("curl|-u|me|x", "curl|-u|me|x"),
        ("curl|-u|me:$PW|x", "curl|-u|me:$PW|x"),
        (
            "wget|--user=me|--password=pw",
            "wget|--user=me|--password=***",
        ),
        ("mysql|-u|root|-ppw|db", "mysql|-u|root|-p***|db"),
        (
            "sshpass|-p|pw|ssh|-p|22|host",
            "sshpass|-p|***|ssh|-p|22|host",
        ),
        ("mongosh|-p|pw", "mongosh|-p|***"),
        ("docker|login|-u|me|-p|pw", "docker|login|-u|me|-p|***"),
        (
            "sh|-c|curl -u 'me:p w' x | jq -p y && mysql -ppw; python -p 3",
            "sh|-c|curl -u 'me:*** ***' x | jq -p y && mysql -p***; python -p 3",
        ),
        (
            "sh|-c|wandb login --relogin 0123456789abcdef0123456789abcdef01234567 && python t.py",
            "sh|-c|wandb login --relogin *** && python t.py",
        ),
        ("wandb|login|abcdEFGH1234", "wandb|login|***"),
        ("wandb|login|--relogin|abc", "wandb|login|--relogin|***"),
        (
            "sh|-c|wandb login \"abc1\"; python t.py",
            "sh|-c|wandb login \"***\"; python t.py",
        ),
        (
            "sh|-c|wandb login \\\n abc\npython t.py",
            "sh|-c|wandb login \\\n ***\npython t.py",
        ),
        (
            "sh|-c|echo $PW | docker login --password-stdin; mysql --password=\"X\"",
            "sh|-c|echo $PW | docker login --password-stdin; mysql --password=\"***\"",
        ),
        (
            "t.py|--pass|x|--pass=x|--pwd|x",
            "t.py|--pass|***|--pass=***|--pwd|***",
        ),
        ("mysql|-pS3cret", "mysql|-p***"),
        (
            "mysqldump|-uroot|-vpS3cret|db",
            "mysqldump|-uroot|-vp***|db",
        ),
        ("curl|-sSLume:pw|x", "curl|-sSLume:***|x"),
        ("7z|a|-pS3cret|x.7z", "7z|a|-p***|x.7z"),
        ("unrar|x|-hpS3cret|x.rar", "unrar|x|-hp***|x.rar"),
        ("unzip|-P|pw|x.zip", "unzip|-P|***|x.zip"),
        (
            "redis-cli|-h|host|-a|pw|ping",
            "redis-cli|-h|host|-a|***|ping",
        ),
        ("ldapsearch|-xw|pw|-b|dc=x", "ldapsearch|-xw|***|-b|dc=x"),
        ("smbclient|-Ume%pw|//h/s", "smbclient|-Ume%***|//h/s"),
        ("lftp|-u|me,pw|host", "lftp|-u|me,***|host"),
        (
            "bash|-c|./mysql \"-pS3cret\" && psql -p5432",
            "bash|-c|./mysql \"-p***\" && psql -p5432",
        ),
        (
            "python|-c|subprocess.run([\"/usr/bin/mysql\",\"-pS3cret\",\"db\"])",
            "python|-c|subprocess.run([\"/usr/bin/mysql\",\"-p***\",\"db\"])",
        ),
        (
            "python|-c|import x; run(['mysql', '-pS3cret', 'db'])",
            "python|-c|import x; run(['mysql', '-p***', 'db'])",
        ),
        (
            "python|-c|run(['t.py','--token','abc','--lr','1'])",
            "python|-c|run(['t.py','--token','***','--lr','1'])",
        ),
    ] {
        assert_eq!(hidden(line), expected);
    }
    for line in [
        "t.py|-p8080|-O2|-n4|-pvalue",
        "gcc|-O2|-pipe|-pthread",
        "docker|run|--name|mysql|-p|3306:3306|-d|image",
        "mysql|--port=3306|--protocol=tcp|-P|3306",
        "curl|-X|POST|-o|out|-fsSL|http://x/",
        "python|-p|8080|-u|me:you",
        "docker|run|-p|80:80|-u|1000:1000|image",
        "psql|-p|5432",
        "ssh|-p|22|host",
        "mkdir|-p|a/b",
        "sh|-c|wandb login\npython t.py",
        "sh|-c|wandb login && python t.py; wandb login $KEY",
        "wandb|login|--host|https://wandb.example",
        "PWD=/a|OLDPWD=/b|--forward-pass=2",
    ] {
        assert_eq!(hidden(line), line);
    }
}

#[test]
fn secrets_are_hidden_by_their_looks() {
    for secret in [
        "hf_abcdefghijklmnopqrstuvwxyz01234567",
        "sk-proj-abcdefghij0123456789",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
    ] {
        assert_eq!(hidden(&format!("t.py|{secret}|x")), "t.py|***|x");
        assert_eq!(hidden(&format!("t.py|--use={secret}")), "t.py|--use=***");
    }
    assert_eq!(
        hidden("git|clone|https://0123456789abcdefghijklmn@git.example/x"),
        "git|clone|https://***@git.example/x"
    );
}

#[test]
fn what_training_scripts_say_stays() {
    for line in [
        "t.py|--pad-token|<pad>|--max-tokens|512|--tokenizer|gpt2|--num_tokens=5",
        "t.py|--eos_token|</s>|--token-count|9|tokens_per_batch=3|--token_id|5",
        "t.py|data.sort_key=image|--keys|a|--keyboard=x|--monkey|y",
        "hf_trainer.py|sk-learn-model|sk-learn-pipelines-example|/data/hf_models/x",
        "t.py|--lr=1e-3|--out=s3://bucket/key|http://host:8080/a:b|model:latest",
        "t.py|--token|--lr|0.1",
        "bash|-c|python t.py --token $HF_TOKEN --password=${PW}",
        "t.py|--key-frames=3|--num-keys|4|--compass=x|--bypass=1|BYPASS=1|--pass-through=y|--hf_text_key=prompt",
        "t.py|--subtoken=x|--eostoken=y|--hotkey=z|--map={\"a\":\"b\",\"c\":1}|-v|/a:/b:ro|--at=12:30:01",
        "t.py|--author|me|--authentic=yes|--passes|3|--secretary=x",
    ] {
        assert_eq!(hidden(line), line);
    }
}

#[test]
fn names_of_passwords_and_parameters_of_signed_addresses_are_recognised() {
    for (line, expected) in [
        (
            "t.py|--db-pass|x|--db_pass=x|smtpPass=x",
            "t.py|--db-pass|***|--db_pass=***|smtpPass=***",
        ),
        (
            "t.py|--github-pat|x|--bearer|x|gitlab_pat=x",
            "t.py|--github-pat|***|--bearer|***|gitlab_pat=***",
        ),
        ("t.py|--pat|x|--pat=x", "t.py|--pat|***|--pat=***"),
        (
            "t.py|https://h/b?sv=1&sig=aB%2F&se=2|--out=s3",
            "t.py|https://h/b?sv=1&sig=***&se=2|--out=s3",
        ),
        (
            "t.py|--data=https://h/b?X-Amz-Credential=A/1&X-Amz-Date=2&X-Amz-Signature=0a",
            "t.py|--data=https://h/b?X-Amz-Credential=***&X-Amz-Date=2&X-Amz-Signature=***",
        ),
        (
            "t.py|https://h/?X-Goog-Signature=0a",
            "t.py|https://h/?X-Goog-Signature=***",
        ),
    ] {
        assert_eq!(hidden(line), expected);
    }
    let line = "t.py|--bypass|1|--pass-through|x|--patience|3|--passes|2|--path|/a|--two-pass=1|--first-pass|x|--sig=9|--signature=f|--file-pat=y";
    assert_eq!(hidden(line), line);
    let mut settings = serde_json::from_value(serde_json::json!({
        "db_pass": "x", "data": "see https://h/b?a=1&sig=x and https://u:x@h/", "patience": "3", "forward_pass": "fused",
    }))
    .expect("an object");
    redact_settings(&mut settings);
    assert_eq!(
        serde_json::to_value(settings).expect("JSON"),
        serde_json::json!({
            "db_pass": "***", "data": "see https://h/b?a=1&sig=*** and https://u:***@h/", "patience": "3", "forward_pass": "fused",
        })
    );
}

#[test]
fn where_a_secret_lies_is_none() {
    let line = "t.py|--secret-file=/etc/ok|--password-file|/run/pw|API_KEY_PATH=/k|--credentials-dir|/c|db.passwordFile=x|--token-file|t";
    assert_eq!(hidden(line), line);
    // What looks like a secret is one, whatever its name says.
    assert_eq!(
        hidden("t.py|--secret-file=hf_abcdefghijklmnopqrstuvwxyz01234567|--file-secret=x"),
        "t.py|--secret-file=***|--file-secret=***"
    );
}

#[test]
fn messages_lose_their_secrets_and_nothing_else() {
    for (text, expected) in [
        (
            "401 for https://me:SEKRET@host/ Authorization: Bearer X9",
            "401 for https://me:***@host/ Authorization: Bearer ***",
        ),
        (
            "bad headers {'Authorization': 'Bearer X9', 'Accept': '*/*'}",
            "bad headers {'Authorization': 'Bearer ***', 'Accept': '*/*'}",
        ),
        (
            "refused hf_abcdefghijklmnopqrstuvwxyz01234567.",
            "refused ***",
        ),
        (
            "password=x now, --db-pass x",
            "password=*** now, --db-pass ***",
        ),
        ("login failed\npassword: x", "login failed\npassword: ***"),
        (
            "get https://h/b?sig=x failed",
            "get https://h/b?sig=*** failed",
        ),
    ] {
        assert_eq!(redact_message(text), expected);
    }
    for text in [
        "Unexpected token: '}' at line 3, key: conv1.weight",
        "Missing key(s) in state_dict: \"a.weight\", \"b.bias\".",
        "sorted() got key=len; KeyError: 'api_key'",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
        "epoch 3: two passes, patience 5, bypass on, see https://host/path?page=2",
        "The first pass: done; max_tokens=512 pad_token=<pad>",
    ] {
        assert_eq!(redact_message(text), text);
    }
}

#[test]
fn hiding_twice_changes_nothing() {
    let once = redact_text("a --token b KEY=c https://u:p@h Authorization: Basic x");
    assert_eq!(redact_text(&once), once);
}

#[test]
fn a_secret_of_several_words_is_hidden_to_its_end() {
    let hidden = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        redact_arguments(&arguments)
    };
    for secret in [
        "correct horse battery staple",
        "line1\nSECRETLINE2",
        "two -words/here",
        "user: pass = word",
        "-a b",
    ] {
        assert_eq!(
            hidden(&["t.py", "--password", secret, "--lr", "1"]),
            ["t.py", "--password", "***", "--lr", "1"]
        );
        let joined = format!("--password={secret}");
        assert_eq!(hidden(&["t.py", &joined]), ["t.py", "--password=***"]);
    }
    assert_eq!(
        hidden(&["curl", "-u", "me:correct horse", "http://x/"]),
        ["curl", "-u", "me:***", "http://x/"]
    );
}
