// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache plans the cached rows of a node: for which addresses to ask the API server,
// and what of the answers the datapath has, for how long (docs/design/143). It is pure:
// events come in, steps come out, and the time is part of each event.
package cache
