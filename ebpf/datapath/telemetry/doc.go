// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry reads the counters and events of the programs, and has the
// explanations of reasons.
package telemetry
