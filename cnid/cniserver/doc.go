// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cniserver carries out the CNI commands of one node: it reads what the
// runtime asks for, has package attachment do it, and answers in the version that
// was asked for.
package cniserver
