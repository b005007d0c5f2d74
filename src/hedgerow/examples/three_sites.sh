#!/bin/sh
# From nothing to private answers of three organisations, in eight commands, with their own files.
# Here all run on this machine; elsewhere each runs its two, and the server its two.
# Usage: sh three_sites.sh FOLDER   (an empty folder; stations.csv and three_sites.toml beside this)
set -e
: "${1:?Name an empty folder: sh three_sites.sh FOLDER}"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
cp "$here/three_sites.toml" study.toml
for site in Dale Larch Fern; do awk -F, "NR == 1 || \$2 == \"$site\"" "$here/stations.csv" > $site.csv; done
begin=$(date +%s)

# 1 to 3, at each site: an account and a key; the last line goes to the operator of the server
for site in Dale Larch Fern; do
  hedgerow client init --data $site --budget 2 --unit event,public=forecasts --home home-$site \
    | tail -n 1 >> study.toml
done

# 4 and 5, at the server: a certificate, and the study
openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.pem -days 30 \
  -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2> openssl.log
hedgerow serve study.toml > server.log 2>&1 &
server=$!
trap 'kill $server 2> /dev/null' EXIT
until grep -q -- --server-key server.log; do
  kill -0 $server || { cat server.log; exit 1; }
  sleep 0.2
done
url=$(sed -n 's/.*join \(https[^ ]*\) .*/\1/p' server.log)
key=$(sed -n 's/.*--server-key \([0-9a-f]*\).*/\1/p' server.log)

# 6 to 8, at each site: join, play the file, and print what to use in each round
for site in Dale Larch Fern; do
  hedgerow client run --data $site --csv $site.csv --url $url --server-key $key --ca server.pem \
    --yes --home home-$site > $site.plays.csv 2> $site.log &
  sites="$sites $!"
done
for one in $sites; do wait $one; done
echo "8 commands, $(($(date +%s) - begin)) seconds"
