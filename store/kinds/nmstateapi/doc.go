// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nmstateapi has the kinds of node network states: states, policies of both designs,
// and enactments.
package nmstateapi
