// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"fmt"
	"path"
	"strings"
)

const (
	// width is the longest line of the picture, in characters.
	width = 118
	// margin is the column where the packages begin.
	margin = 18
)

// Draw returns the picture of the table: one layer after the other, each with its packages.
// Packages in one folder share its name.
func (t Table) Draw(packages []Package) string {
	byLayer := map[string][]string{}
	for _, p := range packages {
		if l, ok := t.LayerOf(p.Folder); ok {
			byLayer[l.Name] = append(byLayer[l.Name], p.Folder)
		}
	}
	var b strings.Builder
	for _, l := range t.Layers {
		if l.ForTests {
			continue
		}
		name := l.Name
		if l.Pure {
			name += "*"
		}
		for _, line := range wrap(groups(byLayer[l.Name])) {
			fmt.Fprintf(&b, "%-*s%s\n", margin, name, line)
			name = ""
		}
	}
	return b.String()
}

// group is the packages of one folder.
type group struct {
	folder string
	names  []string
}

// groups divides sorted packages by their folder. A package that is alone in its folder, and a
// package with packages below it, stand for themselves.
func groups(folders []string) (list []group) {
	within := map[string]int{}
	for _, folder := range folders {
		within[path.Dir(folder)]++
	}
	at := map[string]int{}
	for _, folder := range folders {
		parent := path.Dir(folder)
		if within[parent] < 2 || parent == "." {
			list = append(list, group{folder: folder})
			continue
		}
		if _, ok := at[parent]; !ok {
			at[parent] = len(list)
			list = append(list, group{folder: parent})
		}
		list[at[parent]].names = append(list[at[parent]].names, path.Base(folder))
	}
	return list
}

// wrap writes groups into lines. A group that does not fit goes on in the next line.
func wrap(list []group) (lines []string) {
	line := ""
	put := func(word string) {
		if line != "" && margin+len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	for _, g := range list {
		for len(g.names) > 0 {
			n := len(g.names)
			for n > 1 && margin+len(g.text(n)) > width {
				n--
			}
			put(g.text(n))
			g.names = g.names[n:]
			if len(g.names) == 0 {
				g.folder = ""
			}
		}
		if g.folder != "" {
			put(g.folder)
		}
	}
	return append(lines, line)
}

// text returns the first names of a group as one word.
func (g group) text(n int) string {
	if n == 1 {
		return g.folder + "/" + g.names[0]
	}
	return g.folder + "/{" + strings.Join(g.names[:n], ",") + "}"
}
