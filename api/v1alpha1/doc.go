// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API of Alioth in the group alioth.dev: VPC, Subnet,
// Address, VNIClaim, RollCall, SharedService, ExternalPool, ExternalAddress,
// HostAccess, AdmissionGrants and Usage, which are cluster-scoped, and AttachmentClaim. It holds types,
// validation markers and the names of conditions and reasons, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=alioth.dev
package v1alpha1

//go:generate go tool controller-gen object paths=../...
