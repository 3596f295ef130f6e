// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert reads the messages of rtnetlink(7) about devices, addresses, routes and rules as
// documents of package document have them, and makes the messages that a document needs. It sends
// none of them, and has no effects.
package convert
