// Shapes: what pictures of lanes are made of.

/** A line of pixels, for what is too narrow to draw alone. Thousands of small rectangles would be slow; one picture of a
 * line, stretched to the height of the lane, is not.
 */
class Strip {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.height = 1;
    this.canvas.width = 0;
  }

  clear(width) {
    if (this.canvas.width !== width) {
      this.canvas.width = width;
      this.context = this.canvas.getContext("2d");
      this.image = this.context.createImageData(Math.max(width, 1), 1);
      this.filled = new Float32Array(width);
      this.most = new Float32Array(width);
      this.strengths = new Float32Array(width);
      this.tones = new Array(width);
    } else if (this.isUsed) {
      this.filled.fill(0);
      this.most.fill(0);
      this.strengths.fill(0);
    }
    this.isUsed = false;
  }

  /** Fill *share* of a column. The tone that fills most of it is the one that is seen. */
  add(column, share, tone, strength) {
    if (column < 0 || column >= this.filled.length) return;
    this.isUsed = true;
    this.filled[column] += Math.max(share, 1e-6);
    this.strengths[column] = Math.max(this.strengths[column], strength);
    if (share >= this.most[column]) {
      this.most[column] = share;
      this.tones[column] = tone;
    }
  }

  /** Draw the line: the fuller a column, the stronger, and no weaker than *least*. */
  draw(context, look, left, top, height, least) {
    if (!this.isUsed) return;
    const { data } = this.image;
    for (let column = 0; column < this.filled.length; column++) {
      const share = this.filled[column];
      const colour = share ? rgbOf(look(this.tones[column] === "held" ? "held-line" : this.tones[column])) : 0;
      data[4 * column] = colour >> 16;
      data[4 * column + 1] = (colour >> 8) & 255;
      data[4 * column + 2] = colour & 255;
      data[4 * column + 3] = share ? 255 * this.strengths[column] * Math.min(1, Math.max(least, share)) : 0;
    }
    this.context.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, left, top, this.canvas.width, height);
  }
}

/** Return the number in a colour like #1f7a44. */
function rgbOf(colour) {
  return Number.parseInt(colour.slice(1), 16);
}

/** Return a pattern of thin diagonal lines. */
function hatched(context, ground, line) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function drawTriangle(context, x, y, isClosed, colour) {
  context.fillStyle = colour;
  context.beginPath();
  if (isClosed) {
    context.moveTo(x - 2, y - 4);
    context.lineTo(x + 3, y);
    context.lineTo(x - 2, y + 4);
  } else {
    context.moveTo(x - 4, y - 2);
    context.lineTo(x + 4, y - 2);
    context.lineTo(x, y + 3);
  }
  context.fill();
}
