// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interfaces decides which interfaces a pod gets, by the annotation danm.k8s.io/interfaces,
// or without it by default networks. It is pure: it reads the pod and a snapshot of the store.
package interfaces
