// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps the store of a node equal to parts of the API, which can be
// added and removed. A Source of its Set is one list-and-watch scope, such as the
// Addresses of one VPC. A row stays as long as one source covers it.
//
// A node can have a thousand sources. So a Source is not client-go's Reflector: it
// needs one goroutine, and keeps the keys of objects but not the objects, so that each
// row is in memory once (docs/design/063).
package reflector
