// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab is some nodes with pods and a host outside, each a network namespace, between
// which tests send real packets.
package lab
