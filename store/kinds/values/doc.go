// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values reads the common parts of objects of several areas: metadata, the Ready
// condition, references to networks, and addresses. It collects the unusable parts of an object.
package values
