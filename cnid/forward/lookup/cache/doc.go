// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache plans the cached rows of a node (docs/design/143). It selects the addresses
// to ask the API server for, the answers that become rows of the datapath, and how long these
// stay. It is pure: events come in, steps come out, and the time is part of each event.
package cache
