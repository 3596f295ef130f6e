// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cniserver carries out the CNI commands of one node: it parses the runtime's
// request, calls package attachment, and replies in the requested version.
package cniserver
