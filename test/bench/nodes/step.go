// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// RunStep runs a command without quotes, as the set-up of namespaces needs them.
func RunStep(ctx context.Context, step string) error {
	words := strings.Fields(step)
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("run %q: %w: %s", step, err, strings.TrimSpace(string(out)))
	}
	return nil
}
