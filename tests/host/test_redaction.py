"""What is taken out of a text before it is logged, and what stays in it."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.audit import Redactor

SECRET = "hunter2-Zq9"  # looks like nothing; what stands before it tells
BODY = "Zq7aB3kLm9" * 5  # what a token goes on with
HEX = "0a1b2c3d4e5f6789" * 4

# Where {} stands a secret, which nothing but its place tells of.
NAMED = """
GITHUB_TOKEN={}
export DB_PASSWORD='{}'
export PGPASSWORD={} && psql
MYSQL_PWD={} mysql
SSHPASS={} sshpass -e ssh host
REDISCLI_AUTH={} redis-cli ping
OPENAIKEY={}
set -gx API_TOKEN {}
setx API_TOKEN {}
$env:API_TOKEN = "{}"
aws configure set aws_secret_access_key {}
npm config set //registry.example.com/:_authToken {}
//registry.example.com/:_authToken={}
curl https://example.com/?access_token={}&page=2
curl "https://example.com/a?page=2&api_key={}"
https://example.com/cb#id_token={}&state=1
https://account.blob.core.windows.net/c/b?sv=2024&sig={}
https://bucket.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature={}
https://example.com/login?user=ann&pwd={}
redirect=https%3A%2F%2Fexample.com%3Faccess_token%3D{}
docker run -e API_TOKEN={} image
docker run --env=API_KEY={} image
docker build --build-arg NPM_TOKEN={} .
docker login -u ann -p {} registry.example.com
podman login registry.example.com -p {}
kubectl create secret generic db --from-literal=password={}
kubectl --token={} get pods
helm install app . --set db.password={},db.user=ann
terraform apply -var="db_password={}"
terraform apply -var 'db_password={}'
ansible-playbook site.yml -e "ansible_password={}"
heroku config:set SECRET_KEY={}
vault login {}
vault kv put secret/app password={}
az login --service-principal -u app -p {}
curl -u ann:{} https://example.com
curl -uann:{} https://example.com
curl --user ann:{} https://example.com
curl --user=ann:{} https://example.com
curl --proxy-user "ann:{}" https://example.com
curl -x http://ann:{}@proxy.example.com:3128 https://example.com
smbclient //server/share -U ann%{}
http -a ann:{} example.com
http --auth ann:{} example.com
wget --password={} ftp://example.com
curl -H "Authorization: token {}" https://example.com
curl -H 'Authorization: Token token="{}"' https://example.com
curl -H "Authorization: {}" https://example.com
curl -H "X-Api-Key: {}" https://example.com
curl -H "PRIVATE-TOKEN: {}" https://gitlab.example.com
curl -H "Cookie: theme=dark; session={}" https://example.com
curl -b "sessionid={}" https://example.com
curl -d '{"password":"{}"}' https://example.com
curl -d "grant_type=password&client_secret={}" https://example.com
Authorization: Bearer {}
Proxy-Authorization: Basic {}
Authorization: AWS4-HMAC-SHA256 Credential=a/b/c, SignedHeaders=host, Signature={}
Set-Cookie: sid={}; Path=/; HttpOnly
X-Auth-Token: {}
sshpass -p {} ssh ann@example.com
sshpass -p{} ssh ann@example.com
mysql -u root -p{} shop
mysqldump --password={} shop
mariadb -uroot -p'{}' shop
redis-cli -h example.com -a {} ping
mongosh -u ann -p {} shop
mongodb://ann:{}@db.example.com/shop
postgresql://ann:{}@db.example.com/shop?sslmode=require
redis://:{}@cache.example.com:6379/0
amqps://ann:{}@mq.example.com/vhost
ldapsearch -D cn=admin -w {} -b dc=example
openssl pkcs12 -in a.p12 -passin pass:{}
openssl enc -aes-256-cbc -k {} -in a
zip -P {} a.zip a
7z x -p{} a.7z
gpg --batch --passphrase {} -d a.gpg
htpasswd -b .htpasswd ann {}
rabbitmqctl add_user ann {}
sqlcmd -S server -U ann -P {}
snmpwalk -v3 -u ann -A {} host
twine upload -u __token__ -p {} dist/a
net use x: /user:ann /p:{}
git clone https://ann:{}@example.com/a.git
machine example.com login ann password {}
CREATE USER ann IDENTIFIED BY '{}';
ALTER ROLE ann WITH PASSWORD '{}';
Server=db;Database=shop;User Id=ann;Password={};Encrypt=true
DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net
Endpoint=sb://a.example.com/;SharedAccessKeyName=x;SharedAccessKey={}
ConvertTo-SecureString "{}" -AsPlainText -Force
{"token": "{}", "user": "ann"}
{\\"token\\": \\"{}\\", \\"user\\": \\"ann\\"}
["--token", "{}"]
os.environ.setdefault("API_KEY", "{}")
define('DB_PASSWORD', '{}');
:password => "{}",
'secret' => '{}',
password := "{}"
db.password: {}
spring.datasource.password={}
<password>{}</password>
login --api-key {}
login -password "{}"
note: password={}
first=1 second: token={}
--header=X-Api-Key:{}
--otp={}
htpasswd -nb ann {}
requests.get(url, auth=("ann", "{}"))
ssh-keygen -t rsa -N "{}" -f k
pulumi config set --secret dbPassword {}
lftp -u ann,{} ftp://example.com
cqlsh -u ann -p {}
sqlplus scott/{}@db
curl --oauth2-bearer {} https://example.com
az storage blob list --account-key {}
plink -pw {} host
psql "host=db user=ann password={} sslmode=require"
jdbc:mysql://db.example.com/shop?user=ann&password={}
git -c http.extraHeader="AUTHORIZATION: bearer {}" fetch
mount -t cifs //h/s /m -o username=ann,password={}
clientSecret: {}
accessToken: {}
PHPSESSID={}
curl -E client.pem:{} https://example.com
aws ssm put-parameter --name /db/password --value {} --overwrite
az keyvault secret set --vault-name v --name n --value {}
gh secret set DEPLOY --body {}
gh auth login --with-token <<< {}
docker login -u ann --password-stdin <<< '{}'
poetry config pypi-token.pypi {}
poetry config http-basic.mine ann {}
cargo login {}
keytool -list -storepass {}
jarsigner -keypass {} a.jar
ansible-vault encrypt_string {} --name x
vault operator unseal {}
mysqladmin -u root password {}
nmcli dev wifi connect home password {}
rclone config create x s3 secret_access_key {}
echo {} | sudo -S ls
echo -n '{}' | docker login -u ann --password-stdin
echo "ann:{}" | sudo chpasswd
useradd -m -p {} ann
rar a -hp{} a.rar
pdftk a.pdf input_pw {} output b.pdf
rdesktop -u ann -p {} host
wpa_passphrase home {}
iwconfig wlan0 key {}
ipmitool -U ann -P {} power on
https://example.com/callback?code={}&state=1
""".strip().splitlines()

# What is known by its looks alone.
TOKENS = [
    *(f"{start}{BODY}" for start in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-")),
    *(f"{start}{BODY}" for start in ("glrt-", "glcbt-", "ATATT3x", "ATBB", "CCIPAT_", "bkua_", "hf_", "npm_")),
    *(f"{start}{BODY}" for start in ("pypi-", "rubygems_", "dckr_pat_", "sk-", "sk-ant-api03-", "sk-proj-")),
    *(f"{start}{BODY}" for start in ("sk-or-v1-", "sk_live_", "rk_live_", "pk_live_", "whsec_", "gsk_", "xai-")),
    *(f"{start}{BODY}" for start in ("pplx-", "r8_", "nvapi-", "lsv2_pt_", "sgp_", "AIza", "ya29.", "GOCSPX-")),
    *(f"{start}{BODY}" for start in ("hvs.", "hvb.", "hvr.", "dp.pt.", "tskey-auth-", "fm2_", "lin_api_")),
    *(f"{start}{BODY}" for start in ("lin_oauth_", "figd_", "ntn_", "secret_", "PMAK-", "sntrys_", "sntryu_")),
    *(f"{start}{BODY}" for start in ("glsa_", "dt0c01.", "NRAK-", "pat-na1-", "dop_v1_", "shpat_", "shpss_")),
    *(f"{start}{BODY}" for start in ("sq0atp-", "EZAK", "shippo_live_", "pscale_tkn_", "sbp_", "sb_secret_")),
    *(f"{start}{BODY}" for start in ("SG.", "nfp_", "rdme_", "waka_", "dgm_", "xapp-1-", "EAAA", "1//0")),
    *("xoxb-123456789012-" + BODY, "xoxp-123456789012-" + BODY, "xoxe.xoxp-1-" + BODY, f"dapi{HEX[:32]}"),
    *(f"key-{HEX[:32]}", f"SK{HEX[:32]}", f"s.{BODY[:24]}", f"oy2{HEX[:43]}", f"cio{BODY[:32]}"),
    *(f"AKIA{'Q7' * 8}", f"ASIA{'Q7' * 8}", f"AGE-SECRET-KEY-1{'Q7' * 20}", f"{BODY[:14]}.atlasv1.{BODY}"),
    *(f"pat{BODY[:14]}.{HEX}", f"123456789:AA{BODY[:33]}", f"M{BODY[:23]}.{BODY[:6]}.{BODY[:27]}"),
    *(
        f"eyJ{BODY[:20]}.eyJ{BODY[:20]}.{BODY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    ),
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{BODY}\n-----END PGP PRIVATE KEY BLOCK-----",
    f"https://hooks.slack.com/services/T0/B0/{BODY}",
    f"https://discord.com/api/webhooks/1/{BODY}",
    f"https://{BODY}@github.com/a/b.git",
]

INNOCENT = """
npm test -- --grep monkey
git commit -m 'fix: the keyboard'
git commit -m "add token support to the parser"
a=1 b=2
https://example.com/a:b@c
https://example.com:8080/path?page=2&sort=name
docker run -p 8080:80 -u 1000:1000 image
docker run --user 1000:1000 image
PWD=/home/ann OLDPWD=/tmp
PATH=/usr/bin:/bin
max_tokens=4096 temperature=0.2
{"max_tokens": 4096, "input_tokens": 12, "totalTokens": 100}
keywords: a, b, c
keyboard=us hotkey=F5 monkey=see
tokenizer=cl100k_base
public_key=ssh-ed25519
primary_key: id
token_count: 7
token_endpoint=https://example.com/oauth/token
--password-file secrets.txt
--password-stdin
--token-file /run/secrets/token
GITHUB_TOKEN=$GITHUB_TOKEN make
curl -H "X-Api-Key: $API_KEY" https://example.com
token=${TOKEN}
password: null
password=<password>
auth: none
cookie: required
sort --key 2 file
openssl x509 -in a.pem -key a.key
ssh -i key.pem ann@example.com
ssh_key=/home/ann/.ssh/id_ed25519
key: value
"key": "ArrowLeft"
if token == None: return
{"type": "object", "required": ["token", "name"]}
kubectl get secret my-secret -o yaml
helm upgrade --set image.tag=1.2.3 app .
SELECT * FROM tokens WHERE user_id = 5
rg "password" src
ssh -p 2222 ann@example.com
sessionId: sess_abc
passed: 12, failed: 0
author: Ann
authority=example.com
compass=north bypass=true passenger=3
echo hello | sudo tee /etc/motd
https://example.com/?code=404&page=2
nmcli dev wifi connect home
the token is expired
class Passenger: pass
rsync -av src/ host:dst/
mysql -u root -p shop
mysql --port 3306 -P 3306
pk_users_email_address_index
sk-learn-tutorial-for-beginners
global-settings-2021-01-05-final
npm_package_version=1.0.0
hf_hub_download
the secretary said: yes
git log --author=ann --since=2021-01-01
python -m pytest tests/test_keys.py::test_token -k monkey
sha256:0a1b2c3d4e5f67890a1b2c3d4e5f67890a1b2c3d4e5f67890a1b2c3d4e5f6789
commit 0a1b2c3d4e5f67890a1b2c3d4e5f6789abcdef01
550e8400-e29b-41d4-a716-446655440000
""".strip().splitlines()

AROUND = [
    "{}",
    "first line\n{}\nlast line",
    "note: {}",
    "x=1 and then {} # and on",
    "$ {} | tee log",
    "ran (exit 1): {}",
]


def filled(form: str) -> str:
    return form.replace("{}", SECRET)


@pytest.mark.parametrize("form", NAMED)
def test_a_secret_is_known_by_what_stands_before_it(form: str) -> None:
    for around in AROUND:
        text = around.replace("{}", filled(form))
        assert SECRET not in Redactor().text(text), text
    twice = f"{filled(form)}\n{filled(form)}"
    assert SECRET not in Redactor().text(twice)
    assert SECRET not in json.dumps(Redactor().value({"nested": [{"text": twice}]}))


@pytest.mark.parametrize("token", TOKENS, ids=[token[:12] for token in TOKENS])
def test_a_secret_is_known_by_its_looks(token: str) -> None:
    for text in (token, f"note {token} end", f'"{token}"', f"a={token};b=2", f"x({token}), y", f"é{token}é"[1:-1]):
        clean = Redactor().text(text)
        assert not re.search(r"Zq7aB3kLm9|0a1b2c3d|Q7Q7Q7", clean), clean


@pytest.mark.parametrize("form", [form for form in NAMED if " " in form and not {*form} & {"'", '"', "|"}])
def test_a_secret_in_a_list_of_words_is_taken_out(form: str) -> None:
    words = filled(form).split(" ")
    clean = Redactor().value({"argv": ["/usr/bin/" + words[0], *words[1:]]})["argv"]
    assert SECRET not in json.dumps(clean)
    assert len(clean) == len(words)


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text
    assert Redactor().value(text.split(" ")) == text.split(" ")


def test_what_stands_around_a_secret_stays() -> None:
    command = filled("curl -s https://example.com/?page=2&access_token={}&sort=name -o out.json")
    assert (
        Redactor().text(command)
        == "curl -s https://example.com/?page=2&access_token=[redacted]&sort=name -o out.json"
    )
    assert Redactor().text(filled("note: password={} was wrong")) == "note: password=[redacted] was wrong"
    assert (
        Redactor().text(filled("-H 'Authorization: token {}' https://a"))
        == "-H 'Authorization: token [redacted]' https://a"
    )


def test_variables_and_headers_of_the_protocol_are_read_by_their_name() -> None:
    servers = [{"name": "a", "env": [{"name": "API_KEY", "value": SECRET}, {"name": "LANG", "value": "C"}]}]
    servers += [{"name": "b", "headers": [{"name": "Authorization", "value": f"token {SECRET}"}]}]
    clean = Redactor().value({"mcpServers": servers})
    assert SECRET not in json.dumps(clean)
    assert clean["mcpServers"][0]["env"][1] == {"name": "LANG", "value": "C"}


@pytest.mark.parametrize("between", [" ", "  ", "+", "%20"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "Digest", "Negotiate"])
def test_a_credential_behind_its_scheme_is_taken_out_where_no_header_names_it(scheme: str, between: str) -> None:
    told = Redactor().text(f"the server was sent {scheme}{between}{SECRET} and hung up")
    assert told == f"the server was sent {scheme} [redacted] and hung up"


@given(
    st.lists(
        st.sampled_from([*map(filled, NAMED[:60]), *TOKENS[:20], *INNOCENT[:20], " ", "'", '"', "\n"]), max_size=6
    )
)
def test_what_was_redacted_once_holds_no_more_secrets(parts: list[str]) -> None:
    once = Redactor().text(" ".join(parts))
    assert SECRET not in Redactor().text(once)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "KEY",
            "a-",
            "eyJ-",
            "x://",
            "a='",
            "key='",
            'key="***',
            "Bearer ",
            "-a ",
            "-u a:",
            "mysql ",
            "mysql -p",
            "sk-",
        ),
        *(
            "token: ",
            "password=<",
            "<token>",
            "Authorization: ",
            "set -x TOKEN ",
            "login a password ",
            'key=\\"',
            "-u",
            "a.b:",
        ),
        *(
            "-----BEGIN RSA PRIVATE KEY-----",
            "openssl -passin pass:",
            "--token ",
            "1//0",
            "gh",
            "://a:b",
            "%3D",
            "`",
        ),
    ],
)
def test_redacting_takes_linear_time(piece: str) -> None:
    """Sixteen times the text takes nowhere near two hundred and fifty-six times as long."""

    def cost(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.process_time()
        Redactor().text(text)
        return time.process_time() - began

    assert cost(160_000) < 60 * max(cost(10_000), 0.002)
