// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bpf has the compiled programs of ebpf/src with the types that they share
// with Go, the forms in which maps hold addresses, prefixes and ports, and what opens,
// reads and empties maps. C owns every layout: what is generated here follows it.
package bpf
