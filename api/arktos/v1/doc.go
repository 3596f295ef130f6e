// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the tenant-facing API that Alioth shares with Arktos: the
// Network in the group arktos.futurewei.com, and the pod label and annotations
// of that integration.
//
// +kubebuilder:object:generate=true
// +groupName=arktos.futurewei.com
package v1
