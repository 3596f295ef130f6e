// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry reads what the programs count and report of packets, and has the
// words for it.
package telemetry
