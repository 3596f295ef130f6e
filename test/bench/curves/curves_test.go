// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package curves

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"
)

// drawing is as much of an SVG as the tests read.
type drawing struct {
	Texts     []string `xml:"text"`
	Circles   []circle `xml:"circle"`
	Polylines []struct {
		Points string `xml:"points,attr"`
		Dash   string `xml:"stroke-dasharray,attr"`
	} `xml:"polyline"`
}

type circle struct {
	X float64 `xml:"cx,attr"`
	Y float64 `xml:"cy,attr"`
}

func drawn(t *testing.T, c Chart) drawing {
	t.Helper()
	var d drawing
	if err := xml.Unmarshal([]byte(c.SVG()), &d); err != nil {
		t.Fatalf("the drawing can't be read: %v\n%s", err, c.SVG())
	}
	return d
}

func TestChart_Points_PlacedByAxes(t *testing.T) {
	d := drawn(t, Chart{Lines: []Line{{Points: []Point{{10, 1}, {100, 10}, {1000, 100}}}}})
	want := []circle{{left, height - bottom}, {(left + width - right) / 2, (top + height - bottom) / 2}, {width - right, top}}
	if fmt.Sprint(d.Circles) != fmt.Sprint(want) {
		t.Errorf("points at %v, want %v", d.Circles, want)
	}
	for _, tick := range []string{"1", "10", "100", "1000"} {
		if !strings.Contains(strings.Join(d.Texts, " "), tick) {
			t.Errorf("the axes lack %s: %q", tick, d.Texts)
		}
	}
}

func TestChart_ImpossiblePoints_LeftOut(t *testing.T) {
	d := drawn(t, Chart{Lines: []Line{{Points: []Point{{10, 0}, {0, 5}, {10, math.NaN()}, {10, math.Inf(1)}, {10, -1}, {10, 0.5}}}}})
	if len(d.Circles) != 1 {
		t.Errorf("points at %v, want one", d.Circles)
	}
	if none := drawn(t, Chart{Lines: []Line{{Name: "empty"}}}); len(none.Circles) != 0 {
		t.Errorf("points of an empty line at %v", none.Circles)
	}
}

func TestChart_MarkupInTexts_Escaped(t *testing.T) {
	words := `<script>"a" & b</script>`
	d := drawn(t, Chart{Title: words, X: words, Y: words, Lines: []Line{{Name: words, Points: []Point{{1, 1}}}}})
	found := 0
	for _, text := range d.Texts {
		if text == words {
			found++
		}
	}
	if found != 4 {
		t.Errorf("%d of 4 texts are as they were: %q", found, d.Texts)
	}
}

func TestChart_DashedLine_DrawnWithoutPoints(t *testing.T) {
	d := drawn(t, Chart{Lines: []Line{{Points: []Point{{1, 1}, {10, 1}}, Dashed: true}}})
	if len(d.Circles) != 0 || len(d.Polylines) != 1 || d.Polylines[0].Dash == "" {
		t.Errorf("drawn as %+v", d)
	}
}
