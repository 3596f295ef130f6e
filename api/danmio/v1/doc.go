// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the network APIs of DANM in the group danm.io, which DANM uses since
// 2022. It has the types of package api/danm/v1, the group danm.k8s.io. The
// CustomResourceDefinitions of both groups differ only in the group name (package helm).
//
// It holds types and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=danm.io
package v1
