// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bpf has the compiled programs of ebpf/src with the types that they share with
// Go, the encoding of addresses, prefixes and ports in maps, and functions that open,
// read and empty maps. C owns every layout: the generated code follows it.
package bpf
