// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire makes the frames that tests send.
package wire
