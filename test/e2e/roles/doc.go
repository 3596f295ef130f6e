// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles has the end-to-end tests of bouncers and dividers, on a lab of four nodes.
package roles
