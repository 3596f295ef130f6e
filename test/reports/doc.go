// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reports keeps public reports about the faults of other networks. Each one is a
// small case with its right value, which the lab is asked for. README.md lists them, and
// says how a new one is made.
package reports
