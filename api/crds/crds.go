// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds holds the CustomResourceDefinitions of the API that Alioth serves, for those
// who install them without Helm. It holds no logic.
//
// They are generated, those of danm.io from those of danm.k8s.io, and PodNetwork and
// PodNetworkInstance of acn.azure.com from those of multitenancy.acn.azure.com:
// controller-gen finds no kinds among types that another package defines. NetworkAttachmentDefinition is not: it is
// written from the multi-network specification of the Kubernetes Network Plumbing Working
// Group, and its Go type is that group's.
package crds

import "embed"

//go:generate go tool controller-gen object paths=../... crd paths=../... output:crd:dir=.
//go:generate sh -c "for kind in danmnets tenantnetworks clusternetworks tenantconfigs; do sed -e '/api-approved/d' -e 's/danm.k8s.io/danm.io/' danm.k8s.io_${DOLLAR}kind.yaml >danm.io_${DOLLAR}kind.yaml; done"
//go:generate sh -c "for kind in podnetworks podnetworkinstances; do sed -e 's/multitenancy.acn.azure.com/acn.azure.com/' multitenancy.acn.azure.com_${DOLLAR}kind.yaml >acn.azure.com_${DOLLAR}kind.yaml; done"

// Files are the CustomResourceDefinitions, one YAML file each, in the top
// folder.
//
//go:embed *.yaml
var Files embed.FS
