// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds holds the CustomResourceDefinitions of the API that Alioth serves, for
// installations without Helm. It holds no logic.
//
// The definitions are generated. The definitions of danm.io are copies of the definitions of
// danm.k8s.io, and PodNetwork and PodNetworkInstance of acn.azure.com copies of their
// namesakes in multitenancy.acn.azure.com: controller-gen finds no kinds among types that
// another package defines. NetworkAttachmentDefinition is written by hand, from the
// multi-network specification of the Kubernetes Network Plumbing Working Group, and its Go type
// comes from that group.
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
