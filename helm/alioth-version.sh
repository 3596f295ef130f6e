#!/bin/sh
# Copyright The Alioth Authors.
# SPDX-License-Identifier: Apache-2.0
# Writes the number of the release, and the oldest Kubernetes, into the chart:
# alioth-version.sh api/version Chart.yaml
set -eu
constant() {
	value=$(sed -n "s/^const $1 = \"\(.*\)\"\$/\1/p" "$2")
	test -n "$value" || { echo "$2 has no constant $1" >&2; exit 1; }
	echo "$value"
}
number=$(constant Number "$1/version.go")
oldest=$(constant OldestKubernetes "$1/kubernetes.go")
sed -i -e "s/^version: .*/version: $number/" -e "s/^appVersion: .*/appVersion: $number/" -e "s/^kubeVersion: .*/kubeVersion: \">= $oldest.0-0\"/" "$2"
