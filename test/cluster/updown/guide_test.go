// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/docs/pages"
	"github.com/alioth-net/alioth/test/images"
)

// guidePage is the page that people follow beside another network.
const guidePage = "docs/install/existing-network.md"

// guide follows a page of docs literally: it runs its blocks of commands, which have marks.
type guide struct {
	lab      *cluster.Cluster
	root     string
	blocks   map[string]string
	programs string
}

func newGuide(t *testing.T, b *beside, f *fixture) *guide {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.root, guidePage))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, block := range pages.Parse(guidePage, text).Blocks {
		if block.Mark != "" {
			// The lab's values are those of the page, with the lab's addresses and image.
			blocks[block.Mark] = strings.ReplaceAll(block.Text.Text, "values.yaml", b.values)
		}
	}
	builder := images.Builder{Root: f.root, Out: filepath.Join(f.options.Dir, "images")}
	return &guide{
		lab: b.Cluster, root: f.root, blocks: blocks,
		programs: filepath.Join(f.options.Dir, "bin") + ":" + filepath.Dir(builder.Program(images.Alioth, "alioth-cnid")),
	}
}

// follow runs the commands of a block for a node, in the folder of the clone.
func (g *guide) follow(ctx context.Context, t *testing.T, mark, node string) {
	t.Helper()
	command := exec.CommandContext(ctx, "bash", "-c", g.script(t, mark, node))
	command.Dir = g.root
	out, err := command.CombinedOutput()
	t.Logf("%s of %s: %s", mark, node, out)
	if err != nil {
		t.Fatalf("the block %q of %s fails: %v", mark, guidePage, err)
	}
}

// followOn runs the commands of a block on the node.
func (g *guide) followOn(ctx context.Context, t *testing.T, mark, node string) {
	t.Helper()
	out, err := g.lab.NodeExec(ctx, node, "bash", "-c", g.script(t, mark, node))
	t.Logf("%s of %s: %s", mark, node, out)
	if err != nil {
		t.Fatalf("the block %q of %s fails: %v", mark, guidePage, err)
	}
}

func (g *guide) script(t *testing.T, mark, node string) string {
	t.Helper()
	block, found := g.blocks[mark]
	if !found {
		t.Fatalf("%s has no block with the mark %q", guidePage, mark)
	}
	return fmt.Sprintf("set -eu -o pipefail; export PATH=%s:$PATH\n%s", g.programs, strings.ReplaceAll(block, "NODE", node))
}
