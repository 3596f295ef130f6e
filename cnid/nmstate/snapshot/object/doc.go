// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object reads the objects of a host's network as messages of rtnetlink(7), tells which of two
// messages are about one object, and makes the messages that add it again. It knows nothing of
// images, and has no effects.
package object
