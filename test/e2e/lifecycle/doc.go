// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle shows what the chart does to a cluster from installation to
// removal. It runs in a lab of its own, which it brings up and takes down, when
// ALIOTH_E2E=1 is set, as root.
package lifecycle
