// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the network APIs of DANM in the group danm.k8s.io: DanmNet,
// TenantNetwork, ClusterNetwork and TenantConfig. Names and case of the JSON fields are
// those of DANM 4 (DANM user guide, "Network management"), so its manifests apply
// unchanged. Package api/danmio/v1 has the same types in the group danm.io.
//
// It holds types and validation markers, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=danm.k8s.io
package v1
