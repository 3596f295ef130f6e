// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package curves draws curves as SVG. Both axes are logarithmic: a figure that does not grow with
// the cluster is level, and a figure that grows with it has a slope of one.
//
// A library for plots would bring fonts and rasterizers into the module for a few lines in a
// file, so this package writes them itself.
package curves

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Point of a line; both values are above 0, and others are left out.
type Point struct{ X, Y float64 }

// Line is a curve with its points in the order of X.
type Line struct {
	Name   string
	Points []Point
	// Dashed tells a bar from measurements.
	Dashed bool
}

// Chart is a drawing of lines over common axes.
type Chart struct {
	Title, X, Y string
	Lines       []Line
}

// Size of a drawing and of its frame, in user units.
const (
	width, height = 640, 400
	left, right   = 70, 190
	top, bottom   = 40, 50
)

// colors of lines, in turn (Okabe and Ito, told apart by people who are colour-blind).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// SVG returns the drawing. Without any point it has axes from 1 to 10.
func (c Chart) SVG() string {
	x, y := c.axis(func(p Point) float64 { return p.X }), c.axis(func(p Point) float64 { return p.Y })
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width,
		height,
	)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, left, top-16, "start", c.Title)
	text(&b, (left+width-right)/2, height-12, "middle", c.X)
	text(&b, left, top-2, "start", c.Y)
	for tick := x.low; tick <= x.high; tick++ {
		at := across(x, math.Pow10(tick))
		grid(&b, at, top, at, height-bottom)
		text(&b, at, height-bottom+16, "middle", number(tick))
	}
	for tick := y.low; tick <= y.high; tick++ {
		at := up(y, math.Pow10(tick))
		grid(&b, left, at, width-right, at)
		text(&b, left-6, at+4, "end", number(tick))
	}
	for i, line := range c.Lines {
		draw(&b, x, y, line, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis is a range of powers of ten, low below high.
type axis struct{ low, high int }

// axis spans the values of all points that can be drawn.
func (c Chart) axis(of func(Point) float64) axis {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, line := range c.Lines {
		for _, p := range drawable(line.Points) {
			lowest, highest = min(lowest, of(p)), max(highest, of(p))
		}
	}
	if lowest > highest {
		return axis{0, 1}
	}
	a := axis{int(math.Floor(math.Log10(lowest))), int(math.Ceil(math.Log10(highest)))}
	if a.low == a.high {
		a.high++
	}
	return a
}

// share of the axis below a value, 0 to 1.
func (a axis) share(value float64) float64 {
	return (math.Log10(value) - float64(a.low)) / float64(a.high-a.low)
}

func across(a axis, value float64) float64 { return left + a.share(value)*(width-right-left) }

func up(a axis, value float64) float64 { return height - bottom - a.share(value)*(height-bottom-top) }

// drawable returns the points that logarithmic axes have.
func drawable(points []Point) (all []Point) {
	for _, p := range points {
		if p.X > 0 && p.Y > 0 && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0) {
			all = append(all, p)
		}
	}
	return all
}

// draw draws a line with its points, and its name beside.
func draw(b *strings.Builder, x, y axis, line Line, i int) {
	color, dash := colors[i%len(colors)], ""
	if line.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	var corners []string
	for _, p := range drawable(line.Points) {
		corners = append(corners, fmt.Sprintf("%.1f,%.1f", across(x, p.X), up(y, p.Y)))
		if !line.Dashed {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", across(x, p.X), up(y, p.Y), color)
		}
	}
	fmt.Fprintf(
		b,
		`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n",
		strings.Join(corners, " "),
		color,
		dash,
	)
	at := float64(top + 12 + 18*i)
	fmt.Fprintf(
		b,
		`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s" stroke-width="2"%s/>`+"\n",
		width-right+8,
		at-4,
		width-right+28,
		at-4,
		color,
		dash,
	)
	text(b, width-right+32, at, "start", line.Name)
}

func grid(b *strings.Builder, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
}

func text(b *strings.Builder, x, y float64, anchor, words string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(b, []byte(words)) // a Builder takes everything
	b.WriteString("</text>\n")
}

// number returns a power of ten as people write it.
func number(power int) string {
	return strconv.FormatFloat(math.Pow10(power), 'f', max(-power, 0), 64)
}
