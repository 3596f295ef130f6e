#!/bin/sh
# Copyright The Alioth Authors.
# SPDX-License-Identifier: Apache-2.0
# Writes the number of the release into the chart: alioth-version.sh version.go Chart.yaml
set -eu
number=$(sed -n 's/^const Number = "\(.*\)"$/\1/p' "$1")
test -n "$number" || { echo "$1 has no constant Number" >&2; exit 1; }
sed -i -e "s/^version: .*/version: $number/" -e "s/^appVersion: .*/appVersion: $number/" "$2"
