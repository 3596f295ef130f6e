// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values reads what objects of several areas have: metadata, the Ready condition,
// references to networks, and addresses. It collects what can't be used of an object.
package values
