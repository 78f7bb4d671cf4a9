"""How to make digits.npz from scikit-learn's copy of the UCI digits: 1,797 images of 8 x 8 pixels as bytes (0 to 16).

Only this script needs scikit-learn: `pip install scikit-learn`, then `python samples/moe/make_digits.py`.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

if __name__ == "__main__":
    digits = load_digits()
    here = Path(__file__).parent
    np.savez_compressed(here / "digits.npz", images=digits.data.astype(np.uint8), labels=digits.target.astype(np.uint8))
