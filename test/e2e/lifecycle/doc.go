// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle shows the effects of the chart on a cluster from installation to removal, and
// leaves it as it was. It runs on the lab that is up, or brings one up, when ALIOTH_E2E=1 is set,
// as root.
package lifecycle
