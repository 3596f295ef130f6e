// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the network APIs of DANM in the group danm.k8s.io: DanmNet,
// TenantNetwork, ClusterNetwork and TenantConfig. The JSON fields have the names and the case
// that DANM 4 gives them (DANM user guide, "Network management"), so its manifests apply
// unchanged. Package api/danmio/v1 has the same types in the group danm.io.
//
// It holds types and validation markers, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=danm.k8s.io
package v1
