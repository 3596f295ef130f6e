// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the network APIs of DANM in the group danm.io, which DANM uses since
// 2022. The types are those of package api/danm/v1, the group danm.k8s.io. The
// CustomResourceDefinitions are those of that group with another group name (package
// helm).
//
// It holds types and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=danm.io
package v1
