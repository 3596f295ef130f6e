// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API of Alioth in the group alioth.dev. A file has the kinds of an
// area: VPCs with their Subnets and figures, claims, access from outside of VPCs, roles,
// Services, networks outside of VPCs, and links of nodes. The package holds types, validation
// markers and the names of conditions and reasons, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=alioth.dev
package v1alpha1

//go:generate go tool controller-gen object paths=../...
