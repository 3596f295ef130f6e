#!/bin/sh
# Copyright The Alioth Authors.
# SPDX-License-Identifier: Apache-2.0
# Writes the CRDs of the groups that have a second name under that name too:
# copy-crds.sh alioth/files/crds
set -eu
cd "$1"
for kind in danmnets tenantnetworks clusternetworks tenantconfigs; do
	sed -e '/api-approved/d' -e 's/danm.k8s.io/danm.io/' "danm.k8s.io_$kind.yaml" >"danm.io_$kind.yaml"
done
for kind in podnetworks podnetworkinstances; do
	sed -e 's/multitenancy.acn.azure.com/acn.azure.com/' "multitenancy.acn.azure.com_$kind.yaml" >"acn.azure.com_$kind.yaml"
done
