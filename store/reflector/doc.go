// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps the store of a node like parts of the API that come and
// go. A Source of its Set is one list-and-watch scope, such as the Addresses of one
// VPC, and a row stays as long as one source covers it.
//
// A source is of our own and not client-go's Reflector, because a node can have a
// thousand: it takes one goroutine, and keeps the key of each object and no
// object, so that a node's memory holds each row once (docs/design/063).
package reflector
